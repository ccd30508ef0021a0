package models

import (
	"fmt"
	"strings"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// Several registers, read and written together. A Txn's Arg is a place in the table: triples (read 0 or write 1,
// register, value). Numbers: pairs (register, initial value). A read of None saw a register never written; reads of a
// transaction of unknown outcome say nothing.
func init() {
	Register("multi-register", func(p Parameters) search.Model {
		transactions := p.Lists()
		return search.Spec[*persistent.Tree]{
			Init: func() (registers *persistent.Tree) {
				for i := 0; i+1 < len(p.Numbers); i += 2 {
					registers = registers.Set(persistent.Key{A: p.Numbers[i]}, p.Numbers[i+1])
				}
				return registers
			},
			Step: func(registers *persistent.Tree, call *search.Call) (*persistent.Tree, bool) {
				for steps := transactions[call.Arg]; len(steps) >= 3; steps = steps[3:] {
					register, value := persistent.Key{A: steps[1]}, steps[2]
					if steps[0] == 1 {
						registers = registers.Set(register, value)
						continue
					}
					held, there := registers.Get(register)
					if !there {
						held = search.None
					}
					if held != value && !call.Unknown {
						return registers, false
					}
				}
				return registers, true
			},
			Equal: (*persistent.Tree).Equal,
			Hash:  (*persistent.Tree).Hash,
			Show: func(registers *persistent.Tree) string {
				return show(registers, func(key persistent.Key, value int64) string {
					return fmt.Sprintf("%d = %d", key.A, value)
				})
			},
			ShowCall: func(call *search.Call) string {
				var parts []string
				for steps := transactions[call.Arg]; len(steps) >= 3; steps = steps[3:] {
					format := map[int64]string{0: "read %d -> %s", 1: "write %d %s"}[steps[0]]
					parts = append(parts, fmt.Sprintf(format, steps[1], search.Number(steps[2], "nil")))
				}
				return strings.Join(parts, ", ")
			},
		}
	})
}

func show(tree *persistent.Tree, one func(persistent.Key, int64) string) string {
	var parts []string
	tree.Each(func(key persistent.Key, value int64) { parts = append(parts, one(key, value)) })
	return "{" + strings.Join(parts, ", ") + "}"
}
