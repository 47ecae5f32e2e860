// Command bench measures Curfew against a control plane of its own, and prints a table.
//
//	go run ./test/bench                          # all benches; what `make bench` runs
//	go run ./test/bench -jobs 1000 -rounds 1     # a quick look
//	go run ./test/bench -only drain -contestants limit,curfew
//
// main.go reads the flags, starts the control plane through the command in test/cluster
// (cluster.go), builds bin/curfew and runs the benches of the registry (registry.go) one after the
// other. Each returns results; report.go prints them and writes .bench/results.json, and each
// writes its single measurements to .bench/runs-<bench>.json. A bench is one file, or a few, that
// adds itself to the registry. A run with -only replaces the results that it has measured again and
// leaves the others in the file; a run of all leaves none but its own.
//
// The drain (drain.go) is a contest: contestants.go lists who takes part, and round.go lets one of
// them delete a few thousand finished Jobs that all fall due in the same second (load.go). What
// counts is seen by one neutral watch (observer.go), while another client makes small requests and
// notes how long they take (bystander.go). The rounds are interleaved and only values of the same
// round are divided by each other, because a machine's speed drifts by more than the differences to
// measure.
//
// loop.go is a contestant: the bare loop of DELETE calls, in a process of its own like all others.
//
// The drain of labelled ConfigMaps (label_drain.go) is the same contest with another cargo
// (labels.go). label_create.go creates ConfigMaps with and without a label, by turns, and
// label_memory.go measures what the controller needs to know them.
//
// The drain by a cleanup policy (cleanup.go) is the contest once more: the run is due in a whole
// minute, and looks at as many ConfigMaps that it keeps. What the controller needs meanwhile is a
// result as well.
//
// Memory (memory.go), restart (restart.go) and idle time (idle.go) are measured with Jobs that are
// not due: a backlog of real ones (backlog.go), and a million that come from a recorded watch
// (record.go), which a server between controller and API server replays (replay.go). resident.go
// reads what a process needs. lister.go is the bare list beside which a restart is put. Lateness
// (lateness.go) lets Jobs fall due second by second: with a TTL of their own, by a default that is
// read live, and after an outage (lateness_rows.go, outage.go).
//
// The gate (gate.go, `make bench-gate`) runs most benches with few objects, one after the other in
// one control plane, and compares each ratio with its limit in gate.yaml (gate_limits.go).
//
// With -record the results also go into docs/performance.json (performance.go). `bench report`
// writes the tables of docs/performance.md from there (performance_page.go).
package main
