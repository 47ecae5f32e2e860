package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// One processor has to do once it was calm for ten seconds, and all are there again a second after there is much to do.
func TestThrift(t *testing.T) {
	const idle, some, much, most = 0.05, 0.5, 0.8, 2
	seconds := func(n int, share float64) []float64 { return slices.Repeat([]float64{share}, n) }
	for _, test := range []struct {
		name   string
		shares []float64 // of one processor, in each second
		want   string
	}{
		{"a start", seconds(9, idle), ""},
		{"calm", seconds(60, idle), "10s one"},
		{"a drain is calm enough", slices.Concat(seconds(10, idle), seconds(60, some)), "10s one"},
		{"busy again", slices.Concat(seconds(12, idle), seconds(3, much), seconds(20, idle)), "10s one, 13s all, 25s one"},
		{"never calm", seconds(60, most), ""},
		{"neither", seconds(60, some), ""},
		{"a list that ends and another that begins", slices.Concat(seconds(5, most), seconds(9, idle), seconds(1, some), seconds(9, idle), seconds(1, most)), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				got := ""
				th := &thrift{set: func(one bool) {
					which := map[bool]string{true: "one", false: "all"}[one]
					if got != "" {
						got += ", "
					}
					got += fmt.Sprintf("%s %s", time.Since(began), which)
				}}
				th.used = func() (sum time.Duration) {
					for i := range int(time.Since(began) / time.Second) {
						sum += time.Duration(test.shares[i] * float64(time.Second))
					}
					return sum
				}
				go th.run(ctx)
				time.Sleep(time.Duration(len(test.shares))*time.Second + time.Millisecond)
				cancel()
				synctest.Wait()
				if got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

func TestProcessorTime(t *testing.T) {
	before := processorTime()
	for until := time.Now().Add(10 * time.Second); processorTime() < before+10*time.Millisecond; {
		if time.Now().After(until) {
			t.Fatal("it does not grow while this runs")
		}
	}
}
