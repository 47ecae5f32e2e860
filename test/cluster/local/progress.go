package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// progress shows that a long build is alive. It reads what `go build -v` says, which is a package a
// line and downloads between them, and writes how far it is: on a terminal one line that changes
// every second, else a line now and then.
type progress struct {
	out      io.Writer
	title    string
	terminal bool
	started  time.Time
	quit     chan struct{}
	ended    sync.WaitGroup

	mu       sync.Mutex
	rest     []byte // of an unfinished line
	compiled int
	total    int
	latest   string
	other    []string // lines that are neither package nor download
}

// Between two lines where the output is no terminal.
const plainInterval = 15 * time.Second

func newProgress(out io.Writer, title string) *progress {
	p := &progress{out: out, title: title, started: time.Now(), quit: make(chan struct{})}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	fmt.Fprintf(out, "building %s, once: some minutes on 2 cores\n", title)
	p.ended.Add(1)
	go p.loop()
	return p
}

func (p *progress) loop() {
	defer p.ended.Done()
	interval := plainInterval
	if p.terminal {
		interval = time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-ticker.C:
			if p.terminal {
				fmt.Fprintf(p.out, "\r\033[K%s", p.line(now))
			} else {
				fmt.Fprintln(p.out, p.line(now))
			}
		}
	}
}

// line says how far the build is.
func (p *progress) line(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := now.Sub(p.started).Round(time.Second)
	clock := fmt.Sprintf("%d:%02d", int(elapsed.Minutes()), int(elapsed.Seconds())%60)
	switch {
	case p.total == 0 || p.compiled == 0 && p.latest != "":
		return strings.TrimRight(fmt.Sprintf("  %s  fetching modules  %s", clock, p.latest), " ")
	default:
		return strings.TrimRight(fmt.Sprintf("  %s  %d of at most %d packages  %s", clock, p.compiled, p.total, p.latest), " ")
	}
}

// expect tells how many packages there are. Those in Go's build cache are never reported, hence "at
// most".
func (p *progress) expect(packages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.latest = packages, ""
}

var packageLine = regexp.MustCompile(`^[A-Za-z0-9][^ :]*$`)

// Write takes the build's output.
func (p *progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, data...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 {
			return len(data), nil
		}
		line := string(p.rest[:end])
		p.rest = p.rest[end+1:]
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			p.latest = module
			continue
		}
		if packageLine.MatchString(line) {
			p.compiled++
			p.latest = line
			continue
		}
		p.other = append(p.other, line)
	}
}

// complaint returns the last lines that were not about progress: why the build failed.
func (p *progress) complaint() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.other[max(0, len(p.other)-40):], "\n")
}

// stop ends the reports.
func (p *progress) stop() {
	select {
	case <-p.quit:
		return
	default:
	}
	close(p.quit)
	p.ended.Wait()
	if p.terminal {
		fmt.Fprint(p.out, "\r\033[K")
	}
}

// done ends the reports and says how long it took.
func (p *progress) done() {
	p.stop()
	fmt.Fprintf(p.out, "built %s in %s\n", p.title, time.Since(p.started).Round(time.Second))
}
