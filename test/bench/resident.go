package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// fetch reads what a URL answers with code 200.
func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return string(body), nil
}

// scrape reads Prometheus metrics as text: the value of each series, by its name with labels.
func scrape(ctx context.Context, client *http.Client, url string) (map[string]float64, error) {
	text, err := fetch(ctx, client, url)
	samples := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			samples[line[:at]] = v
		}
	}
	return samples, err
}

// heapInUse lets a Go process collect its garbage and returns the bytes in use afterwards. The
// first collection leaves what sync.Pools and finalizers still hold.
func heapInUse(ctx context.Context, client *http.Client, debug string) (bytes int64, err error) {
	for range 3 {
		text, err := fetch(ctx, client, debug+"/debug/pprof/heap?gc=1&debug=1")
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
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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
