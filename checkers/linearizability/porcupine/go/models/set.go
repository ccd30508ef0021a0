package models

import (
	"fmt"
	"sort"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// A set. A Read's Out is a place in the table: the list of all that was in it (None: nothing was).
func init() {
	Register("set", func(p Parameters) search.Model {
		lists := p.Lists()
		for _, list := range lists {
			sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
		}
		return search.Spec[*persistent.Tree]{
			Init: func() *persistent.Tree { return nil },
			Step: func(members *persistent.Tree, call *search.Call) (*persistent.Tree, bool) {
				member := persistent.Key{A: call.Arg}
				switch call.F {
				case search.Add:
					return members.Set(member, 1), true
				case search.Remove:
					return members.Delete(member), true
				case search.Contains:
					_, there := members.Get(member)
					return members, there == (call.Out == 1)
				case search.Read:
					if call.Out == search.None {
						return members, members == nil
					}
					return members, same(members, lists[call.Out])
				}
				return members, false
			},
			Equal: (*persistent.Tree).Equal,
			Hash:  (*persistent.Tree).Hash,
			Show: func(members *persistent.Tree) string {
				return show(members, func(key persistent.Key, _ int64) string { return fmt.Sprint(key.A) })
			},
			ShowCall: func(call *search.Call) string {
				if call.F == search.Read && call.Out != search.None {
					return fmt.Sprintf("read -> %v", lists[call.Out])
				}
				return call.String()
			},
		}
	})
}

// same compares with a sorted list, in which nothing may be twice.
func same(members *persistent.Tree, list []int64) bool {
	if members.Sum() != len(list) {
		return false
	}
	place, equal := 0, true
	members.Each(func(key persistent.Key, _ int64) {
		equal = equal && list[place] == key.A
		place++
	})
	return equal
}
