package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"curfew.dev/curfew/test/harness"
)

// scrape reads Prometheus metrics as text: the value of each series, by its name with labels.
func scrape(ctx context.Context, client *http.Client, url string) (map[string]float64, error) {
	text, err := harness.Get(ctx, client, url)
	samples := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			samples[line[:i]] = v
		}
	}
	return samples, err
}

// heapInUse lets a Go process collect its garbage and returns the bytes in use afterwards. The
// first collection leaves what sync.Pools and finalizers still hold.
func heapInUse(ctx context.Context, client *http.Client, debug string) (bytes int64, err error) {
	for range 3 {
		text, err := harness.Get(ctx, client, debug+"/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(text, "\n# HeapInuse = ")
		value, _, _ := strings.Cut(rest, "\n")
		if bytes, err = strconv.ParseInt(value, 10, 64); err != nil {
			return 0, fmt.Errorf("read HeapInuse of %s: %w", debug, err)
		}
	}
	return bytes, nil
}

// resident is the memory of a process that is in the machine's, in bytes.
func (p *process) resident() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0, fmt.Errorf("read how much memory a process has: %w", err)
	}
	_, rest, _ := strings.Cut(string(data), "\nVmRSS:")
	value, _, _ := strings.Cut(rest, " kB\n")
	kB, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read VmRSS of a process: %w", err)
	}
	return kB * 1024, nil
}
