package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"curfew.dev/curfew/test/harness"
)

// process is a contestant that runs.
type process struct{ *harness.Process }

// launch starts a process whose output goes to a file.
func launch(log, name string, args ...string) (*process, error) {
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	p, err := harness.Start(log, name, args...)
	return &process{p}, err
}

// stop ends the process.
func (p *process) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_ = p.Stop(ctx) // It is killed if it does not end.
}

// poll asks again and again until ask returns no error. It gives up when patience is over or the
// process ends; p may be nil.
func (p *process) poll(ctx context.Context, patience, every time.Duration, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var ended <-chan struct{}
	if p != nil {
		ended = p.Ended()
	}
	last := errors.New("nothing was asked")
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended (%v), before that: %w", p.Err(), last)
		default:
		}
		if pause(ctx, every) != nil {
			return fmt.Errorf("after %s: %w", patience, last)
		}
	}
}

// awaitHealthy polls a URL until it answers 200.
func (p *process) awaitHealthy(ctx context.Context, client *http.Client, url string) error {
	return p.poll(ctx, 30*time.Second, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := harness.Get(ctx, client, url)
		return err
	})
}

// freeAddresses are loopback addresses that no process listens on right now.
func freeAddresses(n int) (addresses []string, err error) {
	for range n {
		port, err := harness.FreePort()
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addresses, nil
}
