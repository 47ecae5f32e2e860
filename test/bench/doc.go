// Command bench measures Curfew against a control plane of its own, and prints a table.
//
//	go run ./test/bench                          # all benches; what `make bench` runs
//	go run ./test/bench -only drain -objects 1000 -rounds 1
//	go run ./test/bench -only drain -contestants limit,curfew
//	go run ./test/bench -gate -rows memory
//
// main.go has the flags and the list of benches, starts the control plane through the command in
// test/cluster (cluster.go), builds bin/curfew and runs one bench after the other. Each returns
// results; report.go prints them and writes .bench/results.json, and each writes its single
// measurements to .bench/runs-<bench>.json.
//
// Drains, lateness, cleanup and deadline are contests (contest.go): contestants.go has who takes
// part, and each lets a cargo fall due in the same second: Jobs (load.go), labelled ConfigMaps
// (labels.go), what a cleanup policy matches (cleanup.go), deadlines (deadline.go). What counts is
// seen by one neutral watch (observer.go), and in the drain of Jobs another client makes small
// requests meanwhile (bystander.go). The rounds are interleaved and only values of the same round are
// divided by each other, because a machine's speed drifts by more than the differences to measure.
// loop.go is the bare loop of calls, in a process of its own like all others. Relays (relay.go) let
// labelled ConfigMaps fall due behind an API server that is slow, refuses requests or ends watches.
//
// Memory (memory.go) and idle time (idle.go) are measured with Jobs that are not due: a server between
// controller and API server makes them of real ones (replay.go). A restart (restart.go) finds a
// backlog of real ones (backlog.go). admission_site.go installs Curfew's webhook for admission.go,
// which asks it and two others (admission_answer.go), and for create.go.
//
// The gate (gate.go, `make bench-gate`) runs some benches with few objects and compares each ratio
// with its limit in gate.yaml. performance.go writes the tables of docs/performance.md.
package main
