//! A list for each of many keys, in two pieces of memory.

/// Of keys `0..n`.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists<T> {
    /// By key: where its list begins; one more for the end of the last.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Lists<T> {
    /// Of keys below `keys`. `pairs` come in the order of their keys.
    pub(super) fn new(keys: usize, pairs: impl IntoIterator<Item = (usize, T)>) -> Self {
        let mut starts = vec![0; keys + 1];
        let mut items = Vec::new();
        for (key, item) in pairs {
            items.push(item);
            starts[key + 1] += 1;
        }
        items.shrink_to_fit();
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Self { starts, items }
    }

    /// Empty for a key that there is not.
    pub(super) fn of(&self, key: usize) -> &[T] {
        let bounds = self.starts.get(key).zip(self.starts.get(key + 1));
        bounds.map_or(&[], |(from, to)| &self.items[*from as usize..*to as usize])
    }

    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.starts.windows(2).map(|w| (w[1] - w[0]) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Lists;

    #[test]
    fn every_key_has_its_items_in_order_and_others_have_none() {
        let lists = Lists::new(4, [(1, 'a'), (1, 'b'), (3, 'c')]);
        let all: Vec<&[char]> = (0..5).map(|key| lists.of(key)).collect();
        assert_eq!(all, [&[][..], &['a', 'b'], &[], &['c'], &[]]);
        assert_eq!(lists.lengths().collect::<Vec<_>>(), [0, 2, 0, 1]);
        assert!(Lists::<u32>::default().of(0).is_empty());
    }
}
