package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// taken are the ports that FreePort has returned. Another process could be offered one again before its
// own listens.
var taken sync.Map

// FreePort is a loopback port that no process listens on at this moment, another one each time. It is
// below the ports that the kernel gives to outgoing connections, since a busy API server might soon
// have one of these.
func FreePort() (int, error) {
	for tries := 0; ; tries++ {
		port := 10000 + rand.IntN(20000)
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		switch {
		case err != nil && tries < 100:
			continue
		case err != nil:
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		_ = listener.Close() // Nothing has connected.
		if _, again := taken.LoadOrStore(port, true); !again {
			return port, nil
		}
	}
}
