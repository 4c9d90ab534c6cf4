//! Groups in the Rust API.

use crate::pack::Pack;
use crate::task::Task;
use pvm_engine::Engine;
use pvm_engine::groups::{Client, Elements, Groups, Operand, Part};
use pvm_engine::{Error, Result};
use pvm_wire::{Element, Encoding, PvmError, Tid, element};
use std::ffi::OsStr;
use std::ops::{Add, Mul};

/// A group of tasks, by its name: its members are numbered, meet at barriers and compute together.
///
/// ```no_run
/// # fn main() -> pvm3::Result<()> {
/// # let mut task = pvm3::Task::enrol()?;
/// let mut group = task.group("workers");
/// let instance = group.join()?;
/// group.barrier(4)?;
/// let mut values = [instance as f64, 1.0];
/// group.sum(7, 0, &mut values)?;
/// if instance == 0 {
///     println!("{} of us", values[1]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Group<'a> {
    engine: &'a mut Engine,
    groups: &'a mut Groups,
    name: &'a OsStr,
}

impl Task {
    /// The group with this name, whether or not this task is a member. The name must not be empty: the calls of the group are
    /// [`PvmError::NullGroup`] then.
    pub fn group<'a>(&'a mut self, name: &'a (impl AsRef<OsStr> + ?Sized)) -> Group<'a> {
        Group { engine: &mut self.engine, groups: &mut self.groups, name: name.as_ref() }
    }
}

impl Group<'_> {
    /// Joins the group, which is created if there is none. Returns this task's instance: the lowest free number, from 0 on.
    ///
    /// [`PvmError::DupGroup`]: it is a member already. [`PvmError::NotInGroup`]: the group is frozen. [`PvmError::OutOfRes`]: too many groups or members.
    pub fn join(&mut self) -> Result<usize> {
        let name = self.name;
        self.client().join(name).map(to_usize)
    }

    /// Leaves the group. It ends with its last member.
    ///
    /// [`PvmError::NoGroup`], [`PvmError::NotInGroup`]: there is no such group, or this task is no member.
    pub fn leave(&mut self) -> Result<()> {
        let name = self.name;
        self.client().leave(name)
    }

    /// Number of members. [`PvmError::NoGroup`]: there is no such group.
    pub fn size(&mut self) -> Result<usize> {
        let name = self.name;
        self.client().size(name).map(to_usize)
    }

    /// The member with this instance. [`PvmError::NoInst`]: no member has it.
    pub fn tid(&mut self, instance: usize) -> Result<Tid> {
        let instance = to_i32(instance)?;
        let name = self.name;
        self.client().tid_of(name, instance)
    }

    /// The instance of a member. [`PvmError::NotInGroup`]: the task is no member.
    pub fn instance_of(&mut self, tid: Tid) -> Result<usize> {
        let name = self.name;
        self.client().instance_of(name, tid).map(to_usize)
    }

    /// The members in the order of their instances. Instances that no member has are left out.
    pub fn members(&mut self) -> Result<Vec<Tid>> {
        let name = self.name;
        self.client().members(name)
    }

    /// Waits until `count` members have called this.
    ///
    /// [`PvmError::NoInst`]: members have exited, and the count can no longer be reached. [`PvmError::Mismatch`]: another member has called it
    /// with another count. [`PvmError::NotInGroup`]: this task is no member.
    pub fn barrier(&mut self, count: usize) -> Result<()> {
        let count = to_i32(count)?;
        let name = self.name;
        self.client().barrier(name, count)
    }

    /// Waits until all members have called this: the members at the time of the wait, so that one that exits is no longer waited for.
    pub fn barrier_of_all(&mut self) -> Result<()> {
        let name = self.name;
        self.client().barrier(name, -1)
    }

    /// Waits until `count` members have called this. Afterwards no task can join. Errors as of [`Group::barrier`].
    pub fn freeze(&mut self, count: usize) -> Result<()> {
        let count = to_i32(count)?;
        let name = self.name;
        self.client().freeze(name, count).map(drop)
    }

    /// Sends a message to all members except this task, which need not be a member. They receive it by [`Task::recv`].
    pub fn broadcast(&mut self, tag: i32, pack: &Pack) -> Result<()> {
        crate::task::check_tag(tag)?;
        let name = self.name;
        let header = pvm_wire::MessageHeader {
            encoding: pack.encoding().word(),
            tag,
            context: self.engine.context(),
            ..pvm_wire::MessageHeader::default()
        };
        self.client().broadcast(name, |engine, others| engine.multicast(&others, header, pack.payload()))
    }

    /// Combines the arrays of all members, element by element, at the member `root`. All members call it with arrays
    /// of one length and with a function that is associative and commutative. Afterwards the arrays of the other members have no
    /// defined contents.
    ///
    /// [`PvmError::NoInst`]: a member that was waited for is lost; after [`Group::barrier_of_all`] the group works again.
    /// [`PvmError::NoData`]: the array of another member is shorter.
    pub fn reduce<T: Element>(
        &mut self,
        tag: i32,
        root: usize,
        values: &mut [T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<()> {
        crate::task::check_tag(tag)?;
        let root = to_i32(root)?;
        let mut operand = Values { values, combine };
        let name = self.name;
        self.client().reduce(name, tag, root, &mut operand)
    }

    /// The sum of all members' arrays: [`Group::reduce`].
    pub fn sum<T: Element + Add<Output = T>>(
        &mut self,
        tag: i32,
        root: usize,
        values: &mut [T],
    ) -> Result<()> {
        self.reduce(tag, root, values, |x, y| x + y)
    }

    /// The product of all members' arrays: [`Group::reduce`].
    pub fn product<T: Element + Mul<Output = T>>(
        &mut self,
        tag: i32,
        root: usize,
        values: &mut [T],
    ) -> Result<()> {
        self.reduce(tag, root, values, |x, y| x * y)
    }

    /// The greatest of all members' elements, place by place: [`Group::reduce`].
    pub fn max<T: Element + PartialOrd>(&mut self, tag: i32, root: usize, values: &mut [T]) -> Result<()> {
        self.reduce(tag, root, values, |x, y| if y > x { y } else { x })
    }

    /// The least of all members' elements, place by place: [`Group::reduce`].
    pub fn min<T: Element + PartialOrd>(&mut self, tag: i32, root: usize, values: &mut [T]) -> Result<()> {
        self.reduce(tag, root, values, |x, y| if y < x { y } else { x })
    }

    /// Collects the arrays of all members, which have one length, at the member `root`. The root gets them one behind the other in the order
    /// of instances, the others `None`. [`PvmError::NoInst`]: a member is lost.
    pub fn gather<T: Element>(&mut self, tag: i32, root: usize, values: &[T]) -> Result<Option<Vec<T>>> {
        crate::task::check_tag(tag)?;
        let root = to_i32(root)?;
        let mut all: Option<Vec<T>> = None;
        let mut take = |_: usize, part: Option<Part<'_>>| {
            let all = all.get_or_insert_default();
            match part {
                None => all.extend_from_slice(values),
                Some(part) => all.extend(unpack::<T>(part, values.len())?),
            }
            Ok(())
        };
        let name = self.name;
        self.client().gather(name, tag, root, &|encoding| pack(values, encoding), &mut take)?;
        Ok(all)
    }

    /// Distributes the array of the member `root`: `count` elements to each member, in the order of instances. Only the root passes an array.
    ///
    /// [`PvmError::BadParam`]: the root's array is too short. [`PvmError::NoInst`]: a member is lost.
    pub fn scatter<T: Element>(
        &mut self,
        tag: i32,
        root: usize,
        all: Option<&[T]>,
        count: usize,
    ) -> Result<Vec<T>> {
        crate::task::check_tag(tag)?;
        let root = to_i32(root)?;
        let share = |instance: usize| {
            let start = instance.checked_mul(count);
            let end = start.and_then(|start| start.checked_add(count));
            let range = start.zip(end).and_then(|(start, end)| all.unwrap_or_default().get(start..end));
            range.ok_or_else(|| Error::new(PvmError::BadParam, "the root has no elements for every member"))
        };
        let mut own = Vec::new();
        let mut take = |instance: usize, part: Option<Part<'_>>| {
            own = match part {
                None => share(instance)?.to_vec(),
                Some(part) => unpack(part, count)?,
            };
            Ok(())
        };
        let pack = |instance: usize, encoding| pack(share(instance)?, encoding);
        let name = self.name;
        self.client().scatter(name, tag, root, &pack, &mut take)?;
        Ok(own)
    }

    fn client(&mut self) -> Client<'_, Engine> {
        Client::new(self.engine, self.groups, None)
    }
}

/// The values of the Rust API.
struct Values<'a, T, F> {
    values: &'a mut [T],
    combine: F,
}

impl<T: Element, F: FnMut(T, T) -> T> Operand for Values<'_, T, F> {
    fn pack(&self, encoding: Encoding) -> Result<Elements<'_>> {
        pack(self.values, encoding)
    }

    fn fold(&mut self, other: Part<'_>) -> Result<()> {
        let Self { values, combine } = self;
        let count = values.len();
        let fold = |index: usize, other| values[index] = combine(values[index], other);
        Ok(element::unpack(other.data, &mut 0, other.encoding, count, fold)?)
    }

    fn replace(&mut self, other: Part<'_>) -> Result<()> {
        self.values.copy_from_slice(&unpack(other, self.values.len())?);
        Ok(())
    }
}

fn pack<T: Element>(values: &[T], encoding: Encoding) -> Result<Elements<'_>> {
    if encoding != Encoding::Xdr {
        return Ok(element::native_bytes(values).into());
    }
    let mut body = Vec::new();
    element::pack(&mut body, encoding, values.iter().copied())?;
    Ok(body.into())
}

fn unpack<T: Element>(part: Part<'_>, count: usize) -> Result<Vec<T>> {
    let mut values = Vec::with_capacity(count.min(part.data.len()));
    element::unpack(part.data, &mut 0, part.encoding, count, |_, value| values.push(value))?;
    Ok(values)
}

fn to_i32(number: usize) -> Result<i32> {
    i32::try_from(number).map_err(|_| PvmError::BadParam.into())
}

fn to_usize(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}
