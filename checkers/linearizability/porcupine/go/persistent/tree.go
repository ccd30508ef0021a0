package persistent

// Key of a Tree; ordered by A, then B.
type Key struct{ A, B int64 }

func (k Key) less(other Key) bool { return k.A < other.A || k.A == other.A && k.B < other.B }

func (k Key) priority() uint64 { return Mix(Mix(uint64(k.A)) + uint64(k.B)) }

// Tree is a sorted map. It is a treap whose priorities are hashes of the keys (Seidel, Aragon 1996), so that equal maps
// have equal shapes: what two versions share is compared by address, and a change copies O(log n) nodes. Nil is empty.
type Tree struct {
	key         Key
	value       int64
	left, right *Tree
	hash        uint64
	size        int // sum of the values: for a multiset, how many there are
}

func (t *Tree) with(left, right *Tree) *Tree {
	return plant(t.key, t.value, left, right)
}

func plant(key Key, value int64, left, right *Tree) *Tree {
	return &Tree{
		key, value, left, right,
		left.Hash() + right.Hash() + Mix(key.priority()^Mix(uint64(value))),
		left.Sum() + right.Sum() + int(value),
	}
}

// Hash is equal for equal maps.
func (t *Tree) Hash() uint64 {
	if t == nil {
		return 0
	}
	return t.hash
}

// Sum of all values.
func (t *Tree) Sum() int {
	if t == nil {
		return 0
	}
	return t.size
}

// Get is the value of a key, and whether it is there.
func (t *Tree) Get(key Key) (int64, bool) {
	for t != nil {
		switch {
		case key.less(t.key):
			t = t.left
		case t.key.less(key):
			t = t.right
		default:
			return t.value, true
		}
	}
	return 0, false
}

// Last is the largest key up to the given one, and whether there is any.
func (t *Tree) Last(upTo Key) (found Key, any bool) {
	for t != nil {
		if upTo.less(t.key) {
			t = t.left
		} else {
			found, any = t.key, true
			t = t.right
		}
	}
	return found, any
}

// Set gives a key a value.
func (t *Tree) Set(key Key, value int64) *Tree {
	switch {
	case t == nil:
		return plant(key, value, nil, nil)
	case key == t.key:
		return plant(key, value, t.left, t.right)
	case key.priority() > t.key.priority():
		left, right := t.cut(key)
		return plant(key, value, left, right)
	case key.less(t.key):
		return t.with(t.left.Set(key, value), t.right)
	}
	return t.with(t.left, t.right.Set(key, value))
}

// cut is the maps of the keys below and above one that is not there.
func (t *Tree) cut(key Key) (below, above *Tree) {
	if t == nil {
		return nil, nil
	}
	if key.less(t.key) {
		below, above = t.left.cut(key)
		return below, t.with(above, t.right)
	}
	below, above = t.right.cut(key)
	return t.with(t.left, below), above
}

// Delete takes a key out, if it is there.
func (t *Tree) Delete(key Key) *Tree {
	switch {
	case t == nil:
		return nil
	case key == t.key:
		return join(t.left, t.right)
	case key.less(t.key):
		return t.with(t.left.Delete(key), t.right)
	}
	return t.with(t.left, t.right.Delete(key))
}

func join(left, right *Tree) *Tree {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.key.priority() > right.key.priority():
		return left.with(left.left, join(left.right, right))
	}
	return right.with(join(left, right.left), right.right)
}

// Each visits all, in order of the keys.
func (t *Tree) Each(visit func(key Key, value int64)) {
	if t != nil {
		t.left.Each(visit)
		visit(t.key, t.value)
		t.right.Each(visit)
	}
}

// Equal compares keys and values.
func (t *Tree) Equal(other *Tree) bool {
	if t == other {
		return true
	}
	if t == nil || other == nil || t.hash != other.hash {
		return false
	}
	return t.key == other.key && t.value == other.value && t.left.Equal(other.left) && t.right.Equal(other.right)
}
