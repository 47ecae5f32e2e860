package local

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
)

// Names of the components, in the order in which they start. They end in the reverse order.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
)

// ComponentNames lists the components in the order in which they start.
func ComponentNames() []string {
	return []string{etcd, apiServer, controllerManager, scheduler, kwok}
}

// Known returns an error that lists the names unless name is a component's.
func Known(name string) error {
	if !slices.Contains(ComponentNames(), name) {
		return fmt.Errorf("component %q: there is none of that name, take one of %v", name, ComponentNames())
	}
	return nil
}

// assignPorts gives each component its ports and fills in the URLs that follow from them.
func assignPorts(s *State) error {
	names := ComponentNames()
	ports, err := freePorts(len(names) + 1)
	if err != nil {
		return err
	}
	s.Components = make(map[string]Component, len(names))
	for i, name := range names {
		address := "127.0.0.1:" + strconv.Itoa(ports[i])
		c := Component{Port: ports[i], Log: filepath.Join(s.Dir, "logs", name+".log")}
		switch name {
		case etcd:
			c.PeerPort = ports[len(names)]
			c.Health = "http://" + address + "/health"
			s.Etcd = "http://" + address
		case apiServer:
			c.Health = "https://" + address + "/readyz"
			s.Server = "https://" + address
		case kwok:
			c.Health = "http://" + address + "/healthz"
		default:
			c.Health = "https://" + address + "/healthz"
		}
		s.Components[name] = c
	}
	return nil
}

// freePorts returns n different loopback ports that no process listens on. All are held open until
// the last is found, so that the kernel gives none twice. Between now and a component's own listen
// another process may take one; then Start begins again.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for len(ports) < n {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("look for a free loopback port: %w", err)
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// command returns the command line of a component: the binary, what makes it part of this cluster,
// and last what the options add.
func (s *State) command(bin Binaries, name string) []string {
	arguments := map[string]func(port string) []string{
		etcd: s.etcdArguments, apiServer: s.apiServerArguments, controllerManager: s.controllerManagerArguments,
		scheduler: func(port string) []string { return s.managed(scheduler, port) }, kwok: s.kwokArguments,
	}
	args := arguments[name](strconv.Itoa(s.Components[name].Port))
	return append(append([]string{bin.path(name)}, args...), s.Options.Arguments[name]...)
}

func (s *State) pki(file string) string { return filepath.Join(s.Dir, "pki", file) }

func (s *State) config(file string) string { return filepath.Join(s.Dir, "config", file) }

func (s *State) etcdArguments(string) []string {
	peer := "http://127.0.0.1:" + strconv.Itoa(s.Components[etcd].PeerPort)
	return []string{
		"--name=local",
		"--data-dir=" + filepath.Join(s.Dir, "data", "etcd"),
		"--listen-client-urls=" + s.Etcd, "--advertise-client-urls=" + s.Etcd,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=local=" + peer,
		// Survives any crash of the process, not one of the machine, and is many times faster.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
	}
}

func (s *State) apiServerArguments(port string) []string {
	args := []string{
		"--etcd-servers=" + s.Etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		// No Endpoints for the Service "kubernetes": loopback addresses are invalid there.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + s.pki("server.crt"), "--tls-private-key-file=" + s.pki("server.key"),
		"--client-ca-file=" + s.pki("ca.crt"),
		"--token-auth-file=" + s.config("tokens.csv"),
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.pki("service-account.pub"),
		"--service-account-signing-key-file=" + s.pki("service-account.key"),
		"--requestheader-client-ca-file=" + s.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + s.pki("front-proxy.crt"), "--proxy-client-key-file=" + s.pki("front-proxy.key"),
		// Measurements are to meet the limits of the machine, not these.
		"--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000",
		"--allow-privileged=true",
	}
	if s.Options.AuditLog {
		args = append(args, "--audit-policy-file="+s.config("audit.yaml"),
			"--audit-log-path="+filepath.Join(s.Dir, "logs", "audit.log"), "--audit-log-mode=blocking",
			"--audit-log-maxsize=4096") // MB: tests read one file.
	}
	return args
}

// managed are the arguments that the controller manager and the scheduler share.
func (s *State) managed(name, port string) []string {
	return []string{
		"--kubeconfig=" + s.config(name+".kubeconfig"),
		"--bind-address=127.0.0.1", "--secure-port=" + port,
		"--tls-cert-file=" + s.pki("server.crt"), "--tls-private-key-file=" + s.pki("server.key"),
		"--leader-elect=false",
		"--kube-api-qps=3000", "--kube-api-burst=6000",
	}
}

func (s *State) controllerManagerArguments(port string) []string {
	return append(s.managed(controllerManager, port),
		"--controllers="+s.Options.controllers(),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+s.pki("service-account.key"),
		"--root-ca-file="+s.pki("ca.crt"),
		"--cluster-signing-cert-file="+s.pki("ca.crt"), "--cluster-signing-key-file="+s.pki("ca.key"))
}

func (s *State) kwokArguments(port string) []string {
	return []string{
		"--kubeconfig=" + s.config(kwok+".kubeconfig"),
		"--config=" + s.config("kwok.yaml"),
		"--manage-all-nodes",
		// One address family for Nodes and Pods, or kwok refuses to start a Pod. The range has room for a
		// million Pods.
		"--node-ip=10.0.0.1", "--cidr=10.128.0.1/9",
		"--node-lease-duration-seconds=0",
		"--server-address=127.0.0.1:" + port,
	}
}

// controllers returns the controller manager's --controllers. Without nodes of a cloud there are no
// ranges to hand out.
func (o Options) controllers() string {
	switch {
	case o.Controllers != "":
		return o.Controllers
	case o.InTreeTTL:
		return "*,-node-ipam-controller"
	default:
		return "*,-node-ipam-controller,-ttl-after-finished-controller"
	}
}
