// Package persistent has collections that never change, so that a search may go back to any of them.
package persistent

// Sequence is a sequence that grows at its end and shrinks at its front. Sequences made from one another share one
// buffer: the first to grow takes the next place in it, and only another branch of the search that wants the same
// place for something else copies. So both operations are O(1) along a branch, and a copy is paid where branches part.
// Not for use by several goroutines.
type Sequence[T Element] struct {
	shared   *buffer[T]
	from, to int
	hash     uint64 // sum of mix(element) * factor^(elements after it), wrapping
	power    uint64 // factor^(to-from)
}

// Element is what sequences hold.
type Element interface{ ~byte | ~int64 }

type buffer[T Element] struct{ elements []T }

const factor, inverse = 0x9e3779b97f4a7c15, 0xf1de83e19937733d // inverse * factor = 1, wrapping

// NewSequence is empty, with a buffer of its own.
func NewSequence[T Element]() Sequence[T] {
	return Sequence[T]{shared: &buffer[T]{}, power: 1}
}

// Len is the number of elements.
func (s Sequence[T]) Len() int { return s.to - s.from }

// At is the element at a place from 0.
func (s Sequence[T]) At(place int) T { return s.shared.elements[s.from+place] }

// Elements must not be changed, nor kept.
func (s Sequence[T]) Elements() []T { return s.shared.elements[s.from:s.to] }

// Append adds elements at the end.
func (s Sequence[T]) Append(elements ...T) Sequence[T] {
	for i, element := range elements {
		switch {
		case s.to < len(s.shared.elements) && s.shared.elements[s.to] == element:
			// Another branch put the same here.
		case s.to < len(s.shared.elements):
			own := make([]T, s.Len(), 2*s.Len()+len(elements)-i+8)
			copy(own, s.Elements())
			s.shared, s.from, s.to = &buffer[T]{append(own, element)}, 0, s.Len()
		default:
			s.shared.elements = append(s.shared.elements, element)
		}
		s.to++
		s.hash = s.hash*factor + Mix(uint64(element))
		s.power *= factor
	}
	return s
}

// Rest is all but the first element.
func (s Sequence[T]) Rest() Sequence[T] {
	s.power *= inverse
	s.hash -= Mix(uint64(s.At(0))) * s.power
	s.from++
	return s
}

// Hash is equal for equal sequences.
func (s Sequence[T]) Hash() uint64 { return s.hash }

// Equal compares elements.
func (s Sequence[T]) Equal(other Sequence[T]) bool {
	if s.hash != other.hash || s.Len() != other.Len() {
		return false
	}
	if s.shared == other.shared && s.from == other.from {
		return true
	}
	mine, others := s.Elements(), other.Elements()
	for i := range mine {
		if mine[i] != others[i] {
			return false
		}
	}
	return true
}

// Mix scatters bits: the finalizer of SplitMix64.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
