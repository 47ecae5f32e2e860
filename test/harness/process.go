package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Process is a program that runs beside the control plane.
type Process struct {
	// Name says what it is, Log where its output goes.
	Name, Log string
	PID       int
	// State is how it ended, once Ended is closed.
	State *os.ProcessState

	again func() (*Process, error)
	done  chan struct{}
	err   error
}

// Start starts a program that ends with this one.
func Start(log, program string, args ...string) (*Process, error) {
	return startProcess(filepath.Base(program), log, false, nil, program, args...)
}

// startProcess starts a program with the environment of this one and more.
func startProcess(name, log string, detached bool, env []string, program string, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	process, err := start(name, log, detached, cmd)
	if err != nil {
		return nil, err
	}
	process.again = func() (*Process, error) { return startProcess(name, log, detached, env, program, args...) }
	return process, nil
}

// restartAfter is how long a process that ended waits for its next start.
const restartAfter = 2 * time.Second

// KeepRunning starts the process again, with the same arguments, whenever it has ended, as its
// Deployment would. When ctx is done it stops the process that runs then.
func (p *Process) KeepRunning(ctx context.Context, say func(string)) error {
	for {
		select {
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return p.Stop(stopping)
		case <-p.Ended():
		}
		say(fmt.Sprintf("%s ended (%v) and is started again in %s; see %s", p.Name, p.Err(), restartAfter, p.Log))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartAfter):
		}
		next, err := p.again()
		if err != nil {
			return err
		}
		p = next
	}
}

// start starts a program and appends its output to a log. A detached one outlives this process, in
// a session of its own; any other is ended by the kernel when this process ends, however it does.
func start(name, log string, detached bool, cmd *exec.Cmd) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	// Ctrl-C goes to the whole foreground group; who started the process ends it, in order.
	cmd.SysProcAttr.Setsid = true
	if !detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	process := &Process{Name: name, Log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that started the child, so that thread has to
		// stay.
		runtime.LockOSThread()
		defer file.Close()
		err := cmd.Start()
		if err == nil {
			process.PID = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			process.err = cmd.Wait()
			process.State = cmd.ProcessState
			close(process.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return process, nil
}

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Err is how it ended, once Ended is closed; nil means with code 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Kill ends it with SIGKILL, as a crash would, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop ends it with SIGTERM, and with SIGKILL if it has not ended when the context does; that is an
// error.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not end on SIGTERM: %w", p.Name, ctx.Err()), p.Kill())
	}
}

func (p *Process) signal(signal syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", signal, p.Name, err)
	}
	return nil
}
