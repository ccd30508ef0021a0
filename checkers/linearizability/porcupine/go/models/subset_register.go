package models

import (
	"fmt"
	"sort"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// A register of a set, from Porcupine's tests, nondeterministic: a Write stores any part of the list at Arg in the
// table; a Read answers all that is stored, and a Fetch any part of it (Out, in the table; None: nothing).
func init() {
	type set = *persistent.Tree
	Register("subset-register", func(p Parameters) search.Model {
		lists := p.Lists()
		for _, list := range lists {
			sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
		}
		answer := func(call *search.Call) []int64 {
			if call.Out == search.None {
				return nil
			}
			return lists[call.Out]
		}
		return search.Choices[set]{
			Init: func() []set { return []set{nil} },
			Step: func(stored set, call *search.Call) []set {
				switch call.F {
				case search.Write:
					parts := []set{nil}
					for _, value := range lists[call.Arg] {
						for _, part := range parts {
							parts = append(parts, part.Set(persistent.Key{A: value}, 1))
						}
					}
					return parts
				case search.Fetch:
					for _, value := range answer(call) {
						if _, there := stored.Get(persistent.Key{A: value}); !there {
							return nil
						}
					}
					return []set{stored}
				case search.Read:
					if same(stored, answer(call)) {
						return []set{stored}
					}
				}
				return nil
			},
			Equal: set.Equal,
			Hash:  set.Hash,
			Show: func(stored set) string {
				return show(stored, func(key persistent.Key, _ int64) string { return fmt.Sprint(key.A) })
			},
			ShowCall: func(call *search.Call) string {
				switch call.F {
				case search.Write:
					return fmt.Sprintf("put any of %v", lists[call.Arg])
				case search.Fetch:
					return fmt.Sprintf("get any -> %v", answer(call))
				}
				return fmt.Sprintf("get all -> %v", answer(call))
			},
		}
	})
}
