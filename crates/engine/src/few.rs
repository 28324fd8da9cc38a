//! A list of mostly very few elements, which then needs no memory of its own: a block's translation
//! has dozens of them.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// Up to `N` elements in place, more in a [`Vec`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Few<T: Copy + Default, const N: usize> {
    first: [T; N],
    /// In place; 0 when they are in `all`.
    count: usize,
    all: Vec<T>,
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self { first: [T::default(); N], count: 0, all: Vec::new() }
    }
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    pub fn push(&mut self, element: T) {
        if !self.all.is_empty() {
            self.all.push(element);
        } else if self.count < N {
            self.first[self.count] = element;
            self.count += 1;
        } else {
            self.all.extend(self.first);
            self.all.push(element);
            // Unequal remains would make equal lists unequal.
            (self.first, self.count) = ([T::default(); N], 0);
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<T: Copy + Default, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T: Copy + Default, const N: usize> IntoIterator for Few<T, N> {
    type Item = T;
    type IntoIter =
        core::iter::Chain<core::iter::Take<core::array::IntoIter<T, N>>, alloc::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().take(self.count).chain(self.all)
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut list = Self::default();
        list.extend(elements);
        list
    }
}

impl<T: Copy + Default, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if self.all.is_empty() { &self.first[..self.count] } else { &self.all }
    }
}

impl<T: Copy + Default, const N: usize> DerefMut for Few<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.all.is_empty() { &mut self.first[..self.count] } else { &mut self.all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_order_however_many_there_are() {
        for n in 0..9 {
            let mut list: Few<u32, 3> = (0..n).collect();
            assert!(list.iter().copied().eq(0..n), "{n}");
            list.iter_mut().for_each(|k| *k += 1);
            assert_eq!(list, (1..=n).collect());
            list.clear();
            assert!(list.is_empty());
        }
    }
}
