//! The interface to C's memory: pointers become checked values here, and lists become arrays that C can read.

use super::jobs::{JobInfo, QueueInfo};
use super::state::Failure;
use pvm_wire::PvmError;
use pvm_wire::copy::piece;
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;

/// A string argument of the program's: NULL, or characters that a NUL ends and that stay as they are during the call.
///
/// Only C makes one of a pointer, and the caller of the function promises this; Rust makes one of a [`CStr`].
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Self(text.as_ptr(), PhantomData)
    }
}

impl<'a> Text<'a> {
    /// No string.
    pub const NULL: Self = Self(std::ptr::null(), PhantomData);

    /// A string that is not an argument of a call.
    ///
    /// # Safety
    /// The pointer is valid as an argument of this type.
    pub unsafe fn at(pointer: *const c_char) -> Self {
        Self(pointer, PhantomData)
    }

    /// The bytes; NULL is a bad parameter.
    pub fn bytes(self) -> Result<&'a [u8], Failure> {
        if self.0.is_null() {
            return Err(PvmError::BadParam.into());
        }
        // SAFETY: not NULL, so a string that lives as long as the call: the type's invariant.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// The text; NULL and text that is not UTF-8 are bad parameters.
    pub fn text(self) -> Result<&'a str, Failure> {
        std::str::from_utf8(self.bytes()?).map_err(|_| PvmError::BadParam.into())
    }

    /// The text of any bytes; NULL is a bad parameter.
    pub fn os_text(self) -> Result<&'a OsStr, Failure> {
        self.bytes().map(OsStr::from_bytes)
    }

    /// The text of any bytes; NULL is empty.
    pub fn os_text_or_empty(self) -> Result<&'a OsStr, Failure> {
        if self.0.is_null() { Ok(OsStr::new("")) } else { self.os_text() }
    }

    /// The text; NULL is empty.
    pub fn text_or_empty(self) -> Result<&'a str, Failure> {
        if self.0.is_null() { Ok("") } else { self.text() }
    }
}

/// An array of strings: NULL, or strings that NULL ends and that stay as they are during the call.
///
/// Only C makes one of a pointer, and the caller of the function promises this.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Texts<'a>(*const *const c_char, PhantomData<&'a CStr>);

impl Texts<'_> {
    /// No array.
    pub const NULL: Self = Self(std::ptr::null(), PhantomData);

    /// The strings, of any bytes; NULL is none.
    pub fn os_texts(self) -> Result<Vec<OsString>, Failure> {
        // SAFETY: NULL, or an array that NULL ends: the type's invariant.
        unsafe { os_texts_until_null(self.0) }
    }
}

/// An output argument: NULL, or room for a result.
///
/// Only C makes one of a pointer, and the caller of the function promises this; Rust makes one of a `&mut`.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<'a, T> From<&'a mut T> for Out<'a, T> {
    fn from(room: &'a mut T) -> Self {
        Self(room, PhantomData)
    }
}

impl<T> Clone for Out<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<'_, T> {}

impl<T> Out<'_, T> {
    /// Whether the program wants it.
    pub fn is_wanted(self) -> bool {
        !self.0.is_null()
    }

    /// Stores the result, if it is wanted.
    pub fn set(self, value: T) {
        // SAFETY: NULL, or room for a value, aligned or not: the type's invariant.
        unsafe { store(self.0, value) };
    }
}

/// Stores a result where C wants it, if it does.
///
/// # Safety
/// `pointer` is NULL or can be written.
pub unsafe fn store<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not NULL, so writable by the caller's promise.
        unsafe { pointer.write_unaligned(value) };
    }
}

/// Copies bytes to the program's memory.
///
/// # Safety
/// There is room for them at `pointer`, which is not where they are.
#[inline]
pub unsafe fn copy_bytes(bytes: &[u8], mut pointer: *mut u8) {
    for piece in bytes.chunks(piece(bytes.len())) {
        // SAFETY: the caller's promise; each piece goes behind the last.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), pointer, piece.len());
            pointer = pointer.add(piece.len());
        }
    }
}

/// Stores several results in an array, if there is one.
///
/// # Safety
/// `pointer` is NULL or has room for as many.
pub unsafe fn store_all<T: Copy>(pointer: *mut T, values: &[T]) {
    if !pointer.is_null() {
        for (index, &value) in values.iter().enumerate() {
            // SAFETY: within the caller's array.
            unsafe { pointer.add(index).write_unaligned(value) };
        }
    }
}

/// An array of numbers; NULL with a count and a negative count are bad parameters.
///
/// # Safety
/// `pointer` is NULL or has `count` numbers.
pub unsafe fn numbers<T: Copy>(pointer: *const T, count: c_int) -> Result<Vec<T>, Failure> {
    let count = usize::try_from(count).map_err(|_| PvmError::BadParam)?;
    if pointer.is_null() && count > 0 {
        return Err(PvmError::BadParam.into());
    }
    // SAFETY: within the caller's array.
    Ok((0..count).map(|index| unsafe { pointer.add(index).read_unaligned() }).collect())
}

/// An array of strings; NULL with a count and a negative count are bad parameters.
///
/// # Safety
/// `pointer` is NULL or has `count` strings.
pub unsafe fn texts(pointer: *const *const c_char, count: c_int) -> Result<Vec<String>, Failure> {
    let count = usize::try_from(count).map_err(|_| PvmError::BadParam)?;
    if pointer.is_null() && count > 0 {
        return Err(PvmError::BadParam.into());
    }
    // SAFETY: `index` is below the count, and each entry is a string.
    let item = |index| unsafe { Text::at(pointer.add(index).read()) };
    (0..count).map(|index| item(index).text().map(str::to_owned)).collect()
}

/// An array of strings of any bytes that NULL ends, or none.
///
/// # Safety
/// `pointer` is NULL or an array that NULL ends.
pub unsafe fn os_texts_until_null(pointer: *const *const c_char) -> Result<Vec<OsString>, Failure> {
    let mut list = Vec::new();
    if pointer.is_null() {
        return Ok(list);
    }
    loop {
        // SAFETY: the array goes on until NULL.
        let item = unsafe { pointer.add(list.len()).read() };
        if item.is_null() {
            return Ok(list);
        }
        // SAFETY: an item of the array that is not NULL is a string.
        list.push(unsafe { Text::at(item) }.os_text()?.to_owned());
    }
}

/// `struct pvmhostinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostInfo {
    /// The host's tid.
    pub tid: c_int,
    /// Its name.
    pub name: *mut c_char,
    /// Its architecture.
    pub arch: *mut c_char,
    /// Its speed.
    pub speed: c_int,
    /// Its data signature.
    pub signature: c_int,
}

/// `struct pvmtaskinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TaskInfo {
    /// The task.
    pub tid: c_int,
    /// Its parent.
    pub parent: c_int,
    /// Its host.
    pub host: c_int,
    /// Its state.
    pub flags: c_int,
    /// Its program.
    pub name: *mut c_char,
    /// Its process.
    pub pid: c_int,
}

/// `struct pvmminfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MessageInfo {
    /// Encoded length.
    pub length: c_int,
    /// Context.
    pub context: c_int,
    /// Tag.
    pub tag: c_int,
    /// Wait id.
    pub wait_id: c_int,
    /// Encoding.
    pub encoding: c_int,
    /// Checksum.
    pub checksum: c_int,
    /// Sender.
    pub src: c_int,
    /// Receiver.
    pub dst: c_int,
}

/// `struct pvmmboxinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MailboxInfo {
    /// The class's name.
    pub name: *mut c_char,
    /// Number of entries.
    pub entries: c_int,
    /// Their indices.
    pub indices: *mut c_int,
    /// Their owners.
    pub owners: *mut c_int,
    /// Their flags.
    pub flags: *mut c_int,
}

/// `struct timeval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TimeVal {
    /// Seconds.
    pub seconds: i64,
    /// Microseconds.
    pub micros: i64,
}

/// A list for C: an array, and the strings and arrays that it points to.
#[derive(Debug)]
pub struct CList<T> {
    items: Vec<T>,
    texts: Vec<CString>,
    numbers: Vec<Vec<c_int>>,
    arrays: Vec<Vec<*mut c_char>>,
}

impl<T> Default for CList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), texts: Vec::new(), numbers: Vec::new(), arrays: Vec::new() }
    }
}

impl<T> CList<T> {
    /// Keeps a text and gives the pointer to put into an item. Programs must not write through it.
    pub fn text(&mut self, text: impl AsRef<OsStr>) -> *mut c_char {
        let mut bytes = text.as_ref().as_bytes().to_vec();
        bytes.retain(|&byte| byte != 0);
        let text = CString::new(bytes).unwrap_or_default();
        // The characters stay where they are when the vector grows.
        let pointer = text.as_ptr().cast_mut();
        self.texts.push(text);
        pointer
    }

    /// Keeps numbers and gives the pointer to put into an item.
    pub fn numbers(&mut self, mut numbers: Vec<c_int>) -> *mut c_int {
        let pointer = numbers.as_mut_ptr();
        self.numbers.push(numbers);
        pointer
    }

    /// Keeps texts and gives the pointer to an array of them that NULL ends.
    pub fn texts(&mut self, texts: impl IntoIterator<Item = impl AsRef<OsStr>>) -> *mut *mut c_char {
        let mut array: Vec<_> = texts.into_iter().map(|text| self.text(text)).collect();
        array.push(std::ptr::null_mut());
        let pointer = array.as_mut_ptr();
        self.arrays.push(array);
        pointer
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Number of items.
    pub fn len(&self) -> c_int {
        self.items.len() as c_int
    }

    /// Has each item point to the next, the last to NULL, and gives the pointer to the first; NULL if there is none.
    pub fn linked(&mut self, next: impl Fn(&mut T) -> &mut *mut T) -> *mut T {
        let mut after = std::ptr::null_mut();
        for item in self.items.iter_mut().rev() {
            *next(item) = after;
            after = item;
        }
        after
    }

    /// The array. It stays where it is until the list is replaced.
    pub fn array(&mut self) -> *mut T {
        self.items.as_mut_ptr()
    }
}

impl CList<c_int> {
    /// The numbers.
    pub fn items(&self) -> &[c_int] {
        &self.items
    }

    /// A list of numbers.
    pub fn of(items: Vec<c_int>) -> Self {
        Self { items, ..Self::default() }
    }
}

/// The lists that calls have handed out. Each is valid until the next call of the same function.
#[derive(Default)]
pub struct Lists {
    /// `pvm_config`.
    pub hosts: CList<HostInfo>,
    /// `pvm_reg_rm`.
    pub manager_host: CList<HostInfo>,
    /// `pvm_tasks`.
    pub tasks: CList<TaskInfo>,
    /// `pvm_siblings`.
    pub siblings: Option<CList<c_int>>,
    /// `pvm_getfds`.
    pub descriptors: CList<c_int>,
    /// `pvm_getnoresets`.
    pub no_resets: CList<c_int>,
    /// `pvm_getmboxinfo`.
    pub classes: CList<MailboxInfo>,
    /// `pvm_grpvhostinfo`: members on each host.
    pub group_members: CList<c_int>,
    /// `pvm_grpvhostinfo`: the first of them.
    pub coordinators: CList<c_int>,
    /// `pvm_jobs`.
    pub jobs: CList<JobInfo>,
    /// `pvm_jobhistory`.
    pub ended_jobs: CList<JobInfo>,
    /// `pvm_waitjobs`.
    pub waited_jobs: CList<JobInfo>,
    /// `pvm_queues`.
    pub queues: CList<QueueInfo>,
}

// The layouts are those of the header.
const _: () = assert!(size_of::<HostInfo>() == 32 && size_of::<TaskInfo>() == 32);
