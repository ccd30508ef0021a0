"""Was there one order of the operations, each taking effect between its call and its return, that the object allows?

`calls` are operations as columns, which `from_history` makes of a history (`operations`; `deliveries` for what queues
promise). `planner` chooses who decides: one of the `monitors`, or `porcupine`, which searches. `counterexample` says
why there is none, with the shortest history that fails (`shrink`), of which `units` and `starts` say what may go.
`annotations` are what Porcupine's page shows beside the operations.
"""
