//! Packing and unpacking small messages again and again asks for no memory.

use pvm_wire::encoding::LOCAL_WORD;
use pvm_wire::{Body, MessageHeader, Runs};
use pvm3::{Message, Pack, Received, Tid};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_int;

/// The system's allocator, which counts what each thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends may ask when its counter has gone.
    let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

unsafe extern "C" {
    safe fn pvm_initsend(style: c_int) -> c_int;
    safe fn pvm_mkbuf(style: c_int) -> c_int;
    safe fn pvm_freebuf(id: c_int) -> c_int;
    fn pvm_pkint(pointer: *mut c_int, count: c_int, stride: c_int) -> c_int;
    fn pvm_pkdouble(pointer: *mut f64, count: c_int, stride: c_int) -> c_int;
    fn pvm_pkstr(text: *const u8) -> c_int;
}

/// How often memory is asked for in many rounds, after a few that may.
fn asked(mut round: impl FnMut()) -> usize {
    (0..8).for_each(|_| round());
    let before = ASKED.get();
    (0..1000).for_each(|_| round());
    ASKED.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(asked(|| drop(std::hint::black_box(Box::new(1)))), 1000);
}

#[test]
fn packing_in_c_asks_for_nothing() {
    let (mut numbers, mut more) = ([1, 2, 3], [1.5; 4]);
    for style in [0, 1] {
        let found = asked(|| {
            assert!(pvm_initsend(style) > 0);
            // SAFETY: as many elements as are there, and a string that ends.
            let codes = unsafe {
                [
                    pvm_pkint(numbers.as_mut_ptr(), 3, 1),
                    pvm_pkdouble(more.as_mut_ptr(), 2, 2),
                    pvm_pkstr(c"text".as_ptr().cast()),
                ]
            };
            assert_eq!(codes, [0; 3]);
            assert_eq!(pvm_freebuf(pvm_mkbuf(style)), 0);
        });
        assert_eq!(found, 0, "style {style}");
    }
}

#[test]
fn packing_in_rust_asks_for_nothing() {
    let mut pack = Pack::new();
    let round = || {
        pack.clear();
        pack.put_one(4).and_then(|pack| pack.put(&[1.5, 2.5])).and_then(|pack| pack.put_str("text")).unwrap();
        assert_eq!(pack.len(), 4 + 16 + 12);
    };
    assert_eq!(asked(round), 0);
}

#[test]
fn unpacking_what_was_not_converted_asks_for_nothing() {
    let mut runs = Runs::default();
    runs.push::<i32>(1).unwrap();
    runs.push::<f64>(2).unwrap();
    let native = [&4_i32.to_ne_bytes()[..], &1.5_f64.to_ne_bytes(), &2.5_f64.to_ne_bytes()].concat();
    let body = [&native[..], runs.as_bytes()].concat();
    let header = MessageHeader {
        encoding: LOCAL_WORD,
        checksum: runs.as_bytes().len() as u32,
        ..MessageHeader::default()
    };
    let found = asked(|| {
        let src = Tid::from_raw(0x40001);
        let message = Message { src, dst: src, header, body: Body::copy_from_slice(&body) };
        let (mut received, mut values) = (Received::new(message), [0.0; 2]);
        assert_eq!((received.len(), received.get_one::<i32>().unwrap()), (20, 4));
        received.get_into(&mut values).unwrap();
        assert_eq!(values.map(f64::to_bits), [1.5_f64, 2.5].map(f64::to_bits));
    });
    assert_eq!(found, 0);
}
