package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a contestant that runs.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once ended
}

// launch starts a process whose output goes to a file.
func launch(ctx context.Context, log string, name string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	// An interrupt at the terminal is for us; we end the contestant.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends the process.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// poll asks again and again until ask returns no error. It gives up when patience is over or the
// process ends; p may be nil.
func (p *process) poll(ctx context.Context, patience, every time.Duration, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var ended chan struct{}
	if p != nil {
		ended = p.ended
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
			return fmt.Errorf("it ended (%v), before that: %w", p.err, last)
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
		_, err := fetch(ctx, client, url)
		return err
	})
}

// freeAddresses are loopback addresses that no process listens on right now. They are found
// together, or one might be found twice. They are below the ports that the kernel gives to outgoing
// connections, since a busy API server might soon have one of these.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	var last error
	for tries := 0; len(addresses) < n; tries++ {
		if tries == 100 {
			return nil, fmt.Errorf("look for a free port: %w", last)
		}
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err != nil {
			last = err
			continue
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
