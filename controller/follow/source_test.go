package follow

import (
	"testing/synctest"
	"time"

	"curfew.dev/curfew/test/builders"
)

type source = builders.Source

func newSource() *source { return builders.MakeSource() }

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
