/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer of most servers of one thread: an intrusive red-black tree of deadlines in their loop, without locks.
 *
 * Configuration: nodes pooled, as they would lie in the program's objects.  An advance checks the first node, which the
 * tree remembers, and runs due nodes.
 */
#include "nodes.h"
#include "rivals.h"

#include <errno.h>
#include <stdbool.h>

struct tree_node {
	void *arg;
	struct tree_node *side[2], *parent; /* side[0]: earlier, side[1]: later */
	int64_t deadline_ns;
	bool red, pending;
};

static struct tree {
	struct tree_node nil; /* in place of each missing child; black.  A removal sets its parent */
	struct tree_node *root, *first;
	uint64_t count;
	subject_task *task;
	struct nodes nodes;
} tree;

/* Returns the side of its parent on which a node is. */
static int side_of(const struct tree_node *node)
{
	return node == node->parent->side[1];
}

/* Puts `with` where `node` is. */
static void replace(struct tree_node *node, struct tree_node *with)
{
	if (node->parent == &tree.nil)
		tree.root = with;
	else
		node->parent->side[side_of(node)] = with;
	with->parent = node->parent;
}

/* Rotates towards a side: the child on the other side comes up. */
static void rotate(struct tree_node *node, int side)
{
	struct tree_node *up = node->side[!side];

	node->side[!side] = up->side[side];
	if (up->side[side] != &tree.nil)
		up->side[side]->parent = node;
	replace(node, up);
	up->side[side] = node;
	node->parent = up;
}

static void insert(struct tree_node *node)
{
	struct tree_node *parent = &tree.nil;
	int side = 0;

	for (struct tree_node *at = tree.root; at != &tree.nil; at = at->side[side]) {
		parent = at;
		side = node->deadline_ns >= at->deadline_ns;
	}
	node->parent = parent;
	node->side[0] = node->side[1] = &tree.nil;
	node->red = true;
	if (parent == &tree.nil)
		tree.root = node;
	else
		parent->side[side] = node;
	if (tree.first == &tree.nil || node->deadline_ns < tree.first->deadline_ns)
		tree.first = node;
	while (node->parent->red) {
		struct tree_node *grandparent = node->parent->parent, *uncle;

		side = side_of(node->parent);
		uncle = grandparent->side[!side];
		if (uncle->red) {
			node->parent->red = uncle->red = false;
			grandparent->red = true;
			node = grandparent;
			continue;
		}
		if (side_of(node) != side) {
			node = node->parent;
			rotate(node, side);
		}
		node->parent->red = false;
		grandparent->red = true;
		rotate(grandparent, !side);
	}
	tree.root->red = false;
}

static struct tree_node *successor(struct tree_node *node)
{
	if (node->side[1] != &tree.nil) {
		for (node = node->side[1]; node->side[0] != &tree.nil;)
			node = node->side[0];
		return node;
	}
	while (node->parent != &tree.nil && side_of(node) == 1)
		node = node->parent;
	return node->parent;
}

/* Repairs the tree: the paths through `node` have a black node too few. */
static void repair(struct tree_node *node)
{
	while (node != tree.root && !node->red) {
		int side = side_of(node);
		struct tree_node *sibling = node->parent->side[!side];

		if (sibling->red) {
			sibling->red = false;
			node->parent->red = true;
			rotate(node->parent, side);
			sibling = node->parent->side[!side];
		}
		if (!sibling->side[0]->red && !sibling->side[1]->red) {
			sibling->red = true;
			node = node->parent;
			continue;
		}
		if (!sibling->side[!side]->red) {
			sibling->side[side]->red = false;
			sibling->red = true;
			rotate(sibling, !side);
			sibling = node->parent->side[!side];
		}
		sibling->red = node->parent->red;
		node->parent->red = sibling->side[!side]->red = false;
		rotate(node->parent, side);
		node = tree.root;
	}
	node->red = false;
}

static void take_out(struct tree_node *node)
{
	struct tree_node *below, *next = node;
	bool was_red = node->red;

	if (node == tree.first)
		tree.first = successor(node);
	if (node->side[0] == &tree.nil || node->side[1] == &tree.nil) {
		below = node->side[node->side[0] == &tree.nil];
		replace(node, below);
	} else {
		next = successor(node);
		was_red = next->red;
		below = next->side[1];
		below->parent = next;
		if (next->parent != node) {
			replace(next, below);
			next->side[1] = node->side[1];
			next->side[1]->parent = next;
		}
		replace(node, next);
		next->side[0] = node->side[0];
		next->side[0]->parent = next;
		next->red = node->red;
	}
	if (!was_red)
		repair(below);
	node->pending = false;
	tree.count--;
}

static void *tree_init(const struct subject_config *config, subject_task *task)
{
	(void)config;
	tree.nil = (struct tree_node){ .red = false };
	tree.nil.side[0] = tree.nil.side[1] = tree.nil.parent = &tree.nil;
	tree.root = tree.first = &tree.nil;
	tree.count = 0;
	tree.task = task;
	nodes_init(&tree.nodes, sizeof(struct tree_node));
	return &tree;
}

static int tree_schedule_at(void *timer, void *arg, int64_t deadline_ns, struct handle *out)
{
	struct tree_node *node = nodes_take(&tree.nodes);

	(void)timer;
	if (!node)
		return ENOMEM;
	node->arg = arg;
	node->deadline_ns = deadline_ns;
	node->pending = true;
	insert(node);
	tree.count++;
	out->pointer = node;
	return 0;
}

static int tree_cancel(void *timer, struct handle *handle)
{
	struct tree_node *node = handle->pointer;

	(void)timer;
	if (!node->pending)
		return ENOENT;
	take_out(node);
	nodes_give(&tree.nodes, node);
	return 0;
}

static int64_t tree_next(void *timer)
{
	(void)timer;
	return tree.first != &tree.nil ? tree.first->deadline_ns : INT64_MAX;
}

static int64_t tree_advance(void *timer, int64_t now_ns)
{
	while (tree.first != &tree.nil && tree.first->deadline_ns <= now_ns) {
		struct tree_node *node = tree.first;

		take_out(node);
		tree.task(node->arg);
		nodes_give(&tree.nodes, node);
	}
	return tree_next(timer);
}

static uint64_t tree_destroy(void *timer)
{
	(void)timer;
	nodes_destroy(&tree.nodes);
	return tree.count;
}

static const char *tree_version(void)
{
	return "(intrusive red-black tree, one thread; ours)";
}

const struct subject subject_tree = {
	.name = "tree",
	.version = tree_version,
	.init = tree_init,
	.schedule_at = tree_schedule_at,
	.cancel = tree_cancel,
	.advance = tree_advance,
	.next = tree_next,
	.destroy = tree_destroy,
	.producers_max = 1,
};
