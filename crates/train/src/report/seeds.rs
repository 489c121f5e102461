//! Groups runs that differ in their seed only.

use serde_json::Value;

use crate::plot::differ_in_seed_only;

/// Groups runs that differ in their seed only. A group is a list of indices in `configs`. Each run
/// is in one group.
pub fn seed_groups(configs: &[&Value]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, config) in configs.iter().enumerate() {
        let is_alike = |group: &&mut Vec<usize>| {
            let mut others = group.iter();
            others.all(|other| differ_in_seed_only(configs[*other], config))
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_of_different_seeds_are_a_group() {
        let configs = [(1, 64), (2, 128), (2, 64), (2, 64), (3, 64)]
            .map(|(seed, width)| json!({"seed": seed, "model": {"d_model": width}}));
        let configs: Vec<&Value> = configs.iter().collect();
        let expected = [vec![0, 2, 4], vec![1], vec![3]];
        assert_eq!(seed_groups(&configs), expected);
        assert_eq!(seed_groups(&[]), Vec::<Vec<usize>>::new());
    }
}
