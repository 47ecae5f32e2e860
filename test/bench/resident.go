package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// scrape reads Prometheus metrics as text: the value of each series, by its name with labels.
func scrape(ctx context.Context, client *http.Client, url string) (map[string]float64, error) {
	samples := map[string]float64{}
	err := readLines(ctx, client, url, func(line string) {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			return
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			samples[line[:at]] = v
		}
	})
	return samples, err
}

// heapInUse lets a Go process collect its garbage and returns the bytes in use afterwards. The
// first collection leaves what sync.Pools and finalizers still hold.
func heapInUse(ctx context.Context, client *http.Client, debug string) (int64, error) {
	bytes := int64(-1)
	for range 3 {
		err := readLines(ctx, client, debug+"/debug/pprof/heap?gc=1&debug=1", func(line string) {
			if v, ok := strings.CutPrefix(line, "# HeapInuse = "); ok {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil {
					bytes = n
				}
			}
		})
		if err != nil {
			return 0, err
		}
	}
	if bytes < 0 {
		return 0, fmt.Errorf("%s tells no HeapInuse", debug)
	}
	return bytes, nil
}

func readLines(ctx context.Context, client *http.Client, url string, line func(string)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, resp.Body)
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line(lines.Text())
	}
	return lines.Err()
}

// resident is the memory of a process that is in the machine's, in bytes.
func (p *process) resident() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read how much memory a process has: %w", err)
	}
	return parseResident(string(data))
}

func parseResident(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return kB * 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel tells no VmRSS")
}
