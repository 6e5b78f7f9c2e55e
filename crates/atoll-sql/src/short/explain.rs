//! Short plans as `EXPLAIN` shows them.

use super::plan::{JoinKind, Node};

/// The lines of a plan, each node below the one that takes its rows.
pub(crate) fn lines(node: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    add(node, 0, &mut lines);
    lines
}

fn add(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let inputs: Vec<&Node> = match node {
        Node::Empty { .. } | Node::Values(_) | Node::Access(_) | Node::Given { .. } => Vec::new(),
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Sort { input, .. }
        | Node::Limit { input, .. }
        | Node::Aggregate { input, .. }
        | Node::Distinct { input } => vec![input],
        Node::Join(join) => vec![&join.left, &join.right],
    };
    // A projection does no more than compute columns.
    let depth = match title(node) {
        Some(title) => {
            let arrow = if depth == 0 { "" } else { "-> " };
            lines.push(format!("{:width$}{arrow}{title}", "", width = depth.saturating_sub(1) * 3));
            depth + 1
        }
        None => depth,
    };
    inputs.into_iter().for_each(|input| add(input, depth, lines));
}

fn title(node: &Node) -> Option<String> {
    Some(match node {
        Node::Empty { .. } => "Result".to_owned(),
        Node::Values(rows) => format!("Values, {} rows", rows.len()),
        Node::Access(access) => access.describe(),
        Node::Given { .. } => "Row that was found".to_owned(),
        Node::Filter { .. } => "Filter".to_owned(),
        Node::Project { .. } => return None,
        Node::Join(join) => {
            let kind = match join.kind {
                JoinKind::Inner => "",
                JoinKind::Left => "Left ",
                JoinKind::Semi => "Semi ",
                JoinKind::Anti => "Anti ",
                JoinKind::Mark => "Mark ",
            };
            match join.is_dependent || join.keys.is_empty() {
                true => format!("Nested Loop {kind}Join"),
                false => format!("Hash {kind}Join"),
            }
        }
        Node::Aggregate { aggregate, .. } => match aggregate.groups.len() {
            0 => "Aggregate".to_owned(),
            columns => format!("Group by {columns} columns"),
        },
        Node::Sort { keys, limit, .. } => match limit {
            Some(limit) => format!("Sort by {} columns, first {limit} rows", keys.len()),
            None => format!("Sort by {} columns", keys.len()),
        },
        Node::Limit { .. } => "Limit".to_owned(),
        Node::Distinct { .. } => "Distinct".to_owned(),
    })
}
