package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// launch starts a process whose output goes to a file, and to out if that is not nil.
func launch(ctx context.Context, log string, out io.Writer, name string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = file, file
	if out != nil {
		cmd.Stdout = out
	}
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

// stop ends the process and tells how much processor time it took in its life.
func (p *process) stop() time.Duration {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// report waits until the process has ended and reads what it wrote to out, which is JSON, into
// what.
func (p *process) report(ctx context.Context, out *bytes.Buffer, log string, what any) error {
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.stop()
		return ctx.Err()
	}
	if p.err != nil {
		return fmt.Errorf("%w; its log is %s", p.err, log)
	}
	if err := json.Unmarshal(out.Bytes(), what); err != nil {
		return fmt.Errorf("read its report: %w", err)
	}
	return nil
}

// awaitHealthy polls a URL until it answers 200.
func (p *process) awaitHealthy(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	last := fmt.Errorf("nothing was asked")
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("it answers %s", resp.Status)
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended instead of becoming healthy: %v", p.err)
		default:
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("it does not become healthy at %s: %w", url, last)
		}
	}
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
