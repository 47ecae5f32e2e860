package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/test/harness"
)

// player plays a tour. After the first thing that is not as told it plays no more, and err says
// what that was.
type player struct {
	*stage
	ctx      context.Context
	dir      string
	observer *harness.Observer
	err      error
}

// result is what a command came to.
type result struct {
	player *player
	text   string
	failed bool
}

// kubectl shows a command, runs it, and shows what it prints, warnings and errors in their places.
func (p *player) kubectl(line string) result { return p.run(strings.Fields(line)...) }

// run is kubectl with arguments that may contain spaces.
func (p *player) run(args ...string) result {
	if p.err != nil {
		return result{player: p}
	}
	shown := make([]string, 0, len(args))
	for _, arg := range args {
		if strings.ContainsAny(arg, `{}"*`) {
			arg = "'" + arg + "'"
		}
		shown = append(shown, arg)
	}
	p.command("kubectl " + strings.Join(shown, " "))
	cmd := exec.CommandContext(p.ctx, p.cluster.KubectlPath(), args...)
	cmd.Dir = p.dir
	plugins := filepath.Join(p.root, "bin")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.cluster.Kubeconfig, "PATH="+plugins+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	p.output(string(out))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || p.ctx.Err() != nil {
		p.fail(fmt.Errorf("kubectl: %w", errors.Join(p.ctx.Err(), err)))
	}
	return result{p, string(out), err != nil}
}

// fail ends the tour.
func (p *player) fail(err error) {
	if p.err == nil {
		p.err = err
		if p.ctx.Err() == nil {
			p.bad(err.Error())
		}
	}
}

// prints checks that the command succeeded and printed all of the texts.
func (r result) prints(texts ...string) result {
	if r.player.err == nil && r.failed {
		r.player.fail(errors.New("this was to succeed"))
	}
	return r.has(texts...)
}

// fails checks that the command failed and printed all of the texts.
func (r result) fails(texts ...string) {
	if r.player.err == nil && !r.failed {
		r.player.fail(errors.New("this was to be refused"))
	}
	r.has(texts...)
}

func (r result) has(texts ...string) result {
	for _, text := range texts {
		if r.player.err == nil && !strings.Contains(r.text, text) {
			r.player.fail(fmt.Errorf("this was to say %q", text))
		}
	}
	return r
}

// lacks checks that the command printed none of the texts.
func (r result) lacks(texts ...string) {
	for _, text := range texts {
		if r.player.err == nil && strings.Contains(r.text, text) {
			r.player.fail(fmt.Errorf("this was not to say %q", text))
		}
	}
}

// show is cat.
func (p *player) show(file string) {
	if p.err != nil {
		return
	}
	data, err := os.ReadFile(filepath.Join(p.dir, file))
	if err != nil {
		p.fail(fmt.Errorf("read a manifest: %w", err))
		return
	}
	p.command("cat " + file)
	p.output(string(data))
}

// heading and note fall silent with the rest once something was not as told.
func (p *player) heading(text string) {
	if p.err == nil {
		p.stage.heading(text)
	}
}

func (p *player) note(text string) {
	if p.err == nil {
		p.stage.note(text)
	}
}

// observe watches a namespace from here on.
func (p *player) observe(namespace string) {
	if p.err != nil {
		return
	}
	if err := p.cluster.WaitForServiceAccount(p.ctx, namespace); err != nil {
		p.fail(err)
		return
	}
	observer, err := p.cluster.Observe(p.ctx, namespace)
	if err != nil {
		p.fail(err)
		return
	}
	p.observer = observer
}

const (
	// ttl is what the tour's manifests say.
	ttl = 5 * time.Second
	// late is what a person would call late. Where the machine is busy, that is no fault.
	late = time.Second
)

// vanish waits until objects ("Kind/name") are gone. It shows when they finished, were due and were
// deleted, as the API server's watch shows it, and who deleted them, by its audit log.
func (p *player) vanish(objects ...string) {
	if p.err != nil {
		return
	}
	p.note("watching the API server")
	ctx, end := harness.Waiting(p.ctx, "the deletion of "+strings.Join(objects, ", "))
	defer end()
	table := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "OBJECT\tFINISHED\tTTL\tEXPIRY\tDELETED\tLATE BY\tDELETED BY")
	var complaints []error
	busy := false
	for _, object := range objects {
		finish, gone, err := p.follow(ctx, object)
		deleter := ""
		if err == nil {
			deleter, err = p.deleter(ctx, object)
		}
		if err != nil {
			p.fail(fmt.Errorf("wait for %s: %w", object, err))
			return
		}
		expiry := finish.Add(ttl)
		lateness := gone.Sub(expiry)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.ToLower(object), finish.Local().Format(time.TimeOnly), ttl,
			expiry.Local().Format(time.TimeOnly), gone.Local().Format(time.TimeOnly+".000"), lateness.Round(time.Millisecond), deleter)
		if kind, _, _ := strings.Cut(object, "/"); kind != "Job" && deleter != "curfew-controller" {
			complaints = append(complaints, fmt.Errorf("only Curfew was to delete %s, and %s did", object, deleter))
		}
		if lateness < 0 {
			complaints = append(complaints, fmt.Errorf("%s was deleted %s before its expiry", object, -lateness))
		}
		busy = busy || lateness > late
	}
	if err := table.Flush(); err != nil {
		p.fail(fmt.Errorf("write the table: %w", err))
	}
	if busy {
		p.note("more than a second late: other programs keep this machine busy")
	}
	for _, complaint := range complaints {
		p.fail(complaint)
	}
}

// deleter is the ServiceAccount that deleted an object. The audit log may lag behind the watch.
func (p *player) deleter(ctx context.Context, object string) (account string, err error) {
	kind, name, _ := strings.Cut(object, "/")
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		user, err := p.cluster.DeletedBy(strings.ToLower(kind)+"s", "ci", name)
		account = user[strings.LastIndex(user, ":")+1:]
		return user != "", err
	})
	return account, err
}

// follow waits for an object to finish and to be gone.
func (p *player) follow(ctx context.Context, object string) (finish, gone time.Time, err error) {
	kind, name, _ := strings.Cut(object, "/")
	_, err = p.observer.Await(ctx, func(e harness.Event) bool {
		if e.Kind != kind || e.GetName() != name {
			return false
		}
		if t, finished := finishTime(e); finished {
			finish = t
		}
		gone = e.At
		return e.Type == watch.Deleted
	})
	return finish, gone, err
}

func finishTime(e harness.Event) (time.Time, bool) {
	if job := e.Job(); job != nil {
		return harness.JobFinish(job)
	}
	return harness.PodFinish(e.Pod())
}
