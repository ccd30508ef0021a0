package models

import (
	"fmt"
	"math"
	"sort"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// bag is what was put and not yet seen taken, and the takes of unknown outcome ("jokers") so far. Which value a joker
// took is not decided before an empty answer asks: then each value still here must have been taken by a joker of its
// own, called into effect after the value was put. Values are noted with how many jokers came before them, so that is a
// matching by deadlines. Of equal values a take takes the youngest, which the fewest jokers could have taken.
type bag struct {
	values *persistent.Tree // (value, jokers before it) -> how many
	jokers int64
}

func (b bag) emptiable() bool {
	if b.values.Sum() > int(b.jokers) {
		return false
	}
	var before []int64
	b.values.Each(func(key persistent.Key, count int64) {
		for ; count > 0; count-- {
			before = append(before, key.B)
		}
	})
	sort.Slice(before, func(i, j int) bool { return before[i] > before[j] })
	for i, jokers := range before {
		if b.jokers-jokers < int64(i+1) {
			return false
		}
	}
	return true
}

func (b bag) add(key persistent.Key, change int64) bag {
	count, _ := b.values.Get(key)
	if count+change == 0 {
		b.values = b.values.Delete(key)
	} else {
		b.values = b.values.Set(key, count+change)
	}
	if b.values == nil {
		b.jokers = 0
	}
	return b
}

// A bag (a queue without order).
func init() {
	Register("bag", func(Parameters) search.Model {
		return search.Spec[bag]{
			Init: func() bag { return bag{} },
			Step: func(state bag, call *search.Call) (bag, bool) {
				switch {
				case call.F == search.Put:
					return state.add(persistent.Key{A: call.Arg, B: state.jokers}, 1), true
				case call.F != search.Take:
					return state, false
				case call.Unknown:
					if state.values == nil {
						return state, false
					}
					state.jokers++
					return state, true
				case call.Out == search.None:
					return bag{}, state.emptiable()
				}
				youngest, any := state.values.Last(persistent.Key{A: call.Out, B: math.MaxInt64})
				if !any || youngest.A != call.Out {
					return state, false
				}
				return state.add(youngest, -1), true
			},
			Equal: func(a, b bag) bool { return a.jokers == b.jokers && a.values.Equal(b.values) },
			Hash:  func(state bag) uint64 { return state.values.Hash() + persistent.Mix(uint64(state.jokers)) },
			Show: func(state bag) string {
				text := show(state.values, func(key persistent.Key, count int64) string {
					if count > 1 {
						return fmt.Sprintf("%d (%d times)", key.A, count)
					}
					return fmt.Sprint(key.A)
				})
				if state.jokers > 0 {
					text += fmt.Sprintf(", of which up to %d may be gone", state.jokers)
				}
				return text
			},
		}
	})
}
