package harness

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Services connect the API server to Pods, as kube-proxy does for Services. The API server reaches
// them by a proxy that its egress selector names.
type Services struct {
	listener net.Listener
	folder   string
	argument string
	mutex    sync.Mutex
	cluster  *Cluster
	pods     []*Pod
	turn     int
}

// NewServices listens in a folder, whose path has to be short. The argument is one of the cluster.
func NewServices(folder string) (*Services, error) {
	socket, file := filepath.Join(folder, "services.sock"), filepath.Join(folder, "egress.yaml")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	config := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n" +
		"- name: cluster\n  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      uds:\n        udsName: " + socket + "\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s := &Services{listener: listener, folder: folder, argument: "kube-apiserver=--egress-selector-config-file=" + file}
	go func() { _ = http.Serve(listener, http.HandlerFunc(s.connect)) }()
	return s, nil
}

// Argument is for [ClusterOptions.Arguments].
func (s *Services) Argument() string { return s.argument }

// Serve adds Pods of a cluster, which have to be ready.
func (s *Services) Serve(cluster *Cluster, pods ...*Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.cluster, s.pods = cluster, append(s.pods, pods...)
}

// serveOnly is Serve, and forgets earlier Pods.
func (s *Services) serveOnly(cluster *Cluster, pod *Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.cluster, s.pods = cluster, []*Pod{pod}
}

// Close ends the proxy.
func (s *Services) Close() error { return s.listener.Close() }

// connect answers a CONNECT to the address of a Service.
func (s *Services) connect(response http.ResponseWriter, request *http.Request) {
	address, err := s.resolve(request.Context(), request.Host)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, _, err := http.NewResponseController(response).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	relay(from, to)
}

// resolve finds a Pod behind the address of a Service, each time the next one.
func (s *Services) resolve(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.cluster == nil {
		return "", fmt.Errorf("no Pods yet")
	}
	services, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, service := range services.Items {
		for _, offered := range service.Spec.Ports {
			if service.Spec.ClusterIP == host && strconv.Itoa(int(offered.Port)) == port {
				return s.next(&service, offered.TargetPort.String())
			}
		}
	}
	return "", fmt.Errorf("no Service has the address %s", address)
}

func (s *Services) next(service *corev1.Service, port string) (string, error) {
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for range s.pods {
		s.turn++
		if pod := s.pods[s.turn%len(s.pods)]; pod.Namespace == service.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			return pod.Port(port)
		}
	}
	return "", fmt.Errorf("no Pod is behind Service %s", service.Name)
}
