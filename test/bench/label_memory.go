package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
)

// labelMemoryOptions are the flags of the memory with labelled objects.
var labelMemoryOptions struct{ objects, rounds int }

func init() {
	register(bench{
		name: "label_memory", about: "memory with labelled ConfigMaps that are not due", position: 55, run: runLabelMemory,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&labelMemoryOptions.objects, "label_memory-objects", 20000, "number of labelled ConfigMaps with which memory is measured")
			fs.IntVar(&labelMemoryOptions.rounds, "label_memory-rounds", 3, "how many rounds; each measures with none and with all")
		},
	})
}

// labelMemoryRun is what one process needs. It is written to .bench/runs-label_memory.json.
type labelMemoryRun struct {
	Round, Objects int
	memoryRun
}

// labelBytesMost is the limit, in bytes of heap an object.
const labelBytesMost = 250

func runLabelMemory(ctx context.Context, e *environment) (results []result, err error) {
	o := labelMemoryOptions
	if o.objects < 1 || o.rounds < 1 {
		return nil, fmt.Errorf("%d objects in %d rounds: give at least 1 of each", o.objects, o.rounds)
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, client); err != nil {
		return nil, err
	}
	l := labelled{client}
	if err := l.namespace(ctx); err != nil {
		return nil, err
	}
	set := jobSet{prefix: "nightly-report-29301120", count: o.objects}
	var all []labelMemoryRun
	var perObject, resident, wanted []float64
	for n := 1; n <= o.rounds; n++ {
		empty, err := e.labelMemory(ctx, n, 0)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		if err := l.createWith(ctx, set, benchNamespace, "30d"); err != nil {
			return nil, fmt.Errorf("create the ConfigMaps: %w", err)
		}
		full, err := e.labelMemory(ctx, n, o.objects)
		if cleared := l.clear(ctx, set); err == nil {
			err = cleared
		}
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		all = append(all, empty, full)
		perObject = append(perObject, float64(full.Heap-empty.Heap)/float64(o.objects))
		resident = append(resident, float64(full.Resident-empty.Resident)/float64(o.objects))
		wanted = append(wanted, labelBytesMost)
		fmt.Fprintf(e.out, "round %d of %d: %d objects, heap %.1f MB (%.1f without), %.0f B an object; resident %.0f B an object\n", n, o.rounds, o.objects,
			float64(full.Heap)/1e6, float64(empty.Heap)/1e6, perObject[n-1], resident[n-1])
		if err := e.writeRuns("label_memory", all); err != nil {
			return nil, err
		}
	}
	return []result{
		compare("memory.label.bytes_per_object."+sizeName(o.objects), "B", perObject, "the limit", wanted),
		compare("memory.label.resident_per_object."+sizeName(o.objects), "B", resident, "the limit of the heap", wanted),
	}, nil
}

// labelMemory starts the controller and measures it once it tracks so many labelled objects.
func (e *environment) labelMemory(ctx context.Context, round, objects int) (labelMemoryRun, error) {
	run := labelMemoryRun{Round: round, Objects: objects, memoryRun: memoryRun{Contestant: theCurfew}}
	began := time.Now()
	c, err := e.launchCurfew(ctx, e.logPath(fmt.Sprintf("label_memory-%d-%d", round, objects)), e.curfewConfig)
	if err != nil {
		return run, err
	}
	defer c.stop()
	if err := c.awaitLabels(ctx); err != nil {
		return run, err
	}
	if err := c.awaitTrackedOf(ctx, "ConfigMap", objects, memoryPatience); err != nil {
		return run, err
	}
	return run, run.look(ctx, c.process, began, http.DefaultClient, "http://"+c.debug)
}
