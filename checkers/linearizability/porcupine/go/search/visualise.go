package search

import (
	"bytes"

	"github.com/anishathalye/porcupine"
)

// Annotation is something that happened beside the operations, such as a fault, drawn in a line of its own (Tag).
type Annotation struct {
	Tag, Description, Details, Color string
	Start, End                       int64 // on the time scale of the calls
}

// Visualise searches all keys, and draws them with Porcupine's own page: an HTML file that needs nothing else.
func Visualise(model Model, history History, limits Limits, notes []Annotation) (Verdict, string, []byte, error) {
	// Porcupine keeps the time here: its own way to stop spares it the way back through all that it tried.
	watch := startWatch(Limits{Memory: limits.Memory})
	groups := split(history)
	last := int64(0)
	for row := range history.Call {
		for _, rank := range []int64{history.Call[row], history.Ret[row]} {
			if rank != Never && rank > last {
				last = rank
			}
		}
	}
	clients := make(map[int64]int) // the page draws a line for each number from 0 on
	var all []porcupine.Operation
	var parts [][]porcupine.Operation
	for _, calls := range groups {
		order(calls, history)
		part := operations(calls, history)
		for i := range part {
			number, there := clients[calls[i].Process]
			if !there {
				number = len(clients)
				clients[calls[i].Process] = number
			}
			part[i].ClientId = number
			if calls[i].Unknown {
				part[i].Return = last + 1
			}
		}
		parts = append(parts, part)
		all = append(all, part...)
	}

	partition := func([]porcupine.Operation) [][]porcupine.Operation { return parts }
	bound := model.bind(watch.stopped.Load, picture)
	bound.model.Partition = partition
	result, info := porcupine.CheckOperationsVerbose(bound.model, all, limits.Time)
	why := watch.end()
	if why != "" && result == porcupine.Illegal {
		result = porcupine.Unknown
	} else if result == porcupine.Unknown && why == "" {
		why = outOfTime(limits)
	}
	annotations := make([]porcupine.Annotation, len(notes))
	for i, note := range notes {
		annotations[i] = porcupine.Annotation{
			Tag: note.Tag, Start: note.Start, End: note.End, Description: note.Description, Details: note.Details,
			BackgroundColor: note.Color,
		}
	}
	info.AddAnnotations(annotations)
	// The page replays what was found, which must not be stopped.
	replay := model.bind(func() bool { return false }, picture)
	replay.model.Partition = partition
	var page bytes.Buffer
	err := porcupine.Visualize(replay.model, info, &page)
	verdicts := map[porcupine.CheckResult]Verdict{
		porcupine.Ok: Ok, porcupine.Illegal: Illegal, porcupine.Unknown: Unknown,
	}
	return verdicts[result], why, page.Bytes(), err
}
