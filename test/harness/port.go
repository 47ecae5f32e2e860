package harness

import (
	"fmt"
	"net"
	"sync"
)

// taken are the ports that freePort has returned. The system may offer one again before its process
// listens.
var taken sync.Map

// freePort is a loopback port that no process listens on at this moment, another one each time.
func freePort() (int, error) {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if _, again := taken.LoadOrStore(port, true); !again {
			return port, nil
		}
	}
}
