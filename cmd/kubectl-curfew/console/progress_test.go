package console

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: the progress shows nothing for a second, then the current step. It is cleared
// before any other output. If the stream is not a terminal, it shows nothing.
func TestProgress(t *testing.T) {
	for name, watched := range map[string]bool{"a person looks on": true, "a pipe": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder // under the lock of progress, which writes to it from its timer
				progress := NewProgress(Environment{Terminal: func(any) bool { return watched }}, &out)
				expect := func(want string) {
					t.Helper()
					synctest.Wait()
					if !watched {
						want = strings.NewReplacer("\r\x1b[K", "", "reading...", "", "judging 7 of 9...", "").Replace(want)
					}
					progress.mu.Lock()
					defer progress.mu.Unlock()
					if out.String() != want {
						t.Errorf("%q, want %q", out.String(), want)
					}
					out.Reset()
				}
				progress.Say("reading")
				time.Sleep(quietFor - time.Nanosecond)
				expect("")
				time.Sleep(time.Nanosecond)
				expect("\r\x1b[Kreading...")
				progress.Say("judging %d of %d", 7, 9)
				time.Sleep(tick)
				expect("\r\x1b[Kjudging 7 of 9...")
				if _, err := progress.Write([]byte("Warning: x\n")); err != nil {
					t.Fatal(err)
				}
				expect("\r\x1b[KWarning: x\n")
				time.Sleep(tick)
				expect("\r\x1b[Kjudging 7 of 9...")
				progress.Done()
				progress.Done()
				time.Sleep(time.Minute)
				expect("\r\x1b[K")
				progress.Again()
				time.Sleep(quietFor - time.Nanosecond)
				expect("")
				progress.Done()
				time.Sleep(time.Minute)
				expect("")
			})
		})
	}
}
