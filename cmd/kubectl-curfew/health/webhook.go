package health

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
)

// configuration is one of the four webhook configurations of Curfew. A validating one has the
// fields of a mutating one.
type configuration struct {
	kind, name string
	world.Presence
	webhooks []admissionv1.MutatingWebhook
}

// The names of the configurations, of either kind: that of manifests/webhook, and the controller's.
const (
	static   = "curfew"
	coverage = "curfew-kinds"
)

func (r *reader) readConfigurations() {
	for _, known := range []struct{ kind, resource string }{
		{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations"}, {"ValidatingWebhookConfiguration", "validatingwebhookconfigurations"},
	} {
		for _, name := range []string{static, coverage} {
			const hides = "which requests the API server sends to Curfew"
			resource := admissionv1.SchemeGroupVersion.WithResource(known.resource)
			read, presence := get[admissionv1.MutatingWebhookConfiguration](r, resource, "", name, hides)
			found := &configuration{kind: known.kind, name: name, Presence: presence}
			if read != nil {
				found.webhooks = read.Webhooks
			}
			r.configurations = append(r.configurations, found)
		}
	}
}

// webhook checks that the API server calls the webhooks.
func (r *reader) webhook() (State, string) {
	for _, configuration := range r.configurations {
		if configuration.name == static && configuration.Presence == world.Missing {
			return Failed, fmt.Sprintf("there is no %s %s: admission does nothing", configuration.kind, configuration.name)
		}
	}
	workload, err := r.w.Workload(r.ctx, "curfew-webhook")
	r.presence(workload.Presence, err, fmt.Sprintf("deployments in namespace %q", r.w.Controller.Namespace), "how many replicas are ready")
	endpoints, port, known := r.endpoints()
	none := known && endpoints == 0 || workload.Presence == world.Found && workload.Ready == 0
	const without = ": objects are created without defaults and checks"
	firewall := ""
	if endpoints > 0 && port != 0 && !strings.Contains(r.probe.Refused, "x509") { // A bad certificate was reached.
		firewall = fmt.Sprintf(". %s: a firewall or NetworkPolicy may block port %d between the API server and the Pods, "+
			`see "Managed clusters" in docs/install.md`, console.Count(endpoints, "endpoint is ready", "endpoints are ready"), port)
	}
	switch {
	case r.probe.Refused != "":
		return Failed, "the API server refuses requests because it cannot call it: " + console.OneLine(r.probe.Refused) + firewall
	case r.probe.Tried && !r.probe.Defaults && !r.probe.Validates:
		message := "the API server does not reach it"
		if none {
			message = "no replica is ready"
		}
		return Failed, message + without + firewall
	case r.probe.Tried && !r.probe.Defaults:
		return Failed, "the API server does not call it for defaults"
	case r.probe.Tried && !r.probe.Validates:
		return Failed, "the API server does not call it for checks"
	case r.probe.Tried:
		return replicas(&workload, "the API server calls it")
	case none:
		return Failed, "no replica is ready" + without
	case known:
		return replicas(&workload, console.Count(endpoints, "endpoint is ready", "endpoints are ready")+
			"; not tried, which takes the verb create on namespaces")
	case workload.Presence == world.Found:
		return replicas(&workload, "not tried, which takes the verb create on namespaces")
	}
	return Unknown, "whether the API server reaches it is not known: " +
		"you may not create namespaces in a dry run, nor get its Deployment and EndpointSlices"
}

// servicePort is the port of the webhooks in manifests/deploy/service.yaml.
const servicePort = "https"

var endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")

// endpoints counts the ready endpoints of the Service in front of the webhooks, and returns their
// port. known is false where there is none, or they cannot be read.
func (r *reader) endpoints() (ready int, port int32, known bool) {
	for _, configuration := range r.configurations {
		for i := range configuration.webhooks {
			service := configuration.webhooks[i].ClientConfig.Service
			if service == nil {
				continue
			}
			ofService := discoveryv1.LabelServiceName + "=" + service.Name
			slices, presence, err := world.Items[discoveryv1.EndpointSlice](r.ctx, r.w, endpointSlices, service.Namespace, ofService)
			r.presence(presence, err, fmt.Sprintf("endpointslices in namespace %q", service.Namespace), "how many endpoints are ready")
			for _, slice := range slices {
				for _, endpointPort := range slice.Ports {
					if ptr.Deref(endpointPort.Name, "") == servicePort {
						port = ptr.Deref(endpointPort.Port, 0)
					}
				}
				for _, endpoint := range slice.Endpoints {
					if ptr.Deref(endpoint.Conditions.Ready, true) {
						ready += len(endpoint.Addresses)
					}
				}
			}
			return ready, port, presence == world.Found
		}
	}
	return 0, 0, false
}

// secretName is the Secret with the CA that replicas issue their certificates by or, from
// cert-manager, the serving certificate, as package certs names it.
const secretName = "curfew-webhook-tls"

// certificate checks the CA bundle of every webhook and the serving certificate.
func (r *reader) certificate() (State, string) {
	roots, without, webhooks := []*x509.Certificate(nil), 0, 0
	for _, configuration := range r.configurations {
		for i := range configuration.webhooks {
			webhooks++
			bundle := parseCertificates(configuration.webhooks[i].ClientConfig.CABundle)
			if bundle = slices.DeleteFunc(bundle, func(ca *x509.Certificate) bool { return !r.now.Before(ca.NotAfter) }); len(bundle) == 0 {
				without++
			}
			roots = append(roots, bundle...)
		}
	}
	if without > 0 {
		return Failed, fmt.Sprintf("no valid CA: %d of %s, which the API server does not call", without, console.Count(webhooks, "webhook"))
	}
	resource := corev1.SchemeGroupVersion.WithResource("secrets")
	secret, presence, err := world.Read[corev1.Secret](r.ctx, r.w, resource, r.w.Controller.Namespace, secretName)
	switch {
	case err != nil:
		return Unknown, err.Error()
	case presence == world.Missing && r.w.Controller.State == world.NotInstalled:
		return Failed, "there is none"
	case presence == world.Missing:
		return Failed, fmt.Sprintf("there is no Secret %s in namespace %q", secretName, r.w.Controller.Namespace)
	case presence == world.Unread && r.probe.Validates:
		return OK, "the API server accepts it; you may not get the Secret, which shows until when"
	case presence == world.Unread:
		r.note("you may not get secrets/%s in namespace %q: until when the certificate in it is valid is not known",
			secretName, r.w.Controller.Namespace)
		return Unknown, "not read"
	}
	return r.serving(parseCertificates(secret.Data[corev1.TLSCertKey]), roots, webhooks > 0)
}

// serving checks the serving certificate, the first of a chain, or its CA.
func (r *reader) serving(chain, roots []*x509.Certificate, known bool) (State, string) {
	if len(chain) == 0 {
		return Failed, "Secret " + secretName + " has no certificate"
	}
	leaf, until := chain[0], r.when(chain[0].NotAfter)
	pool := x509.NewCertPool()
	for _, ca := range roots {
		pool.AddCert(ca)
	}
	between := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	what := "the serving certificate"
	if leaf.IsCA {
		what = "the webhook's CA"
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: r.now, KeyUsages: usages})
	left := leaf.NotAfter.Sub(r.now)
	switch {
	case left <= 0:
		return Failed, what + " expired " + until + ": the API server does not call the webhook"
	case known && err != nil:
		return Failed, "the API server does not trust " + what + ": " + err.Error()
	case left < leaf.NotAfter.Sub(leaf.NotBefore)/6:
		// It is replaced after two thirds of its time.
		return Warning, what + " is valid until " + until + ", and should have been renewed by now"
	}
	return OK, fmt.Sprintf("%s is valid until %s, %s from now", what, until, console.Count(int(left/(24*time.Hour)), "day"))
}

func parseCertificates(text []byte) []*x509.Certificate {
	out, _ := certutil.ParseCertsPEM(text) // What cannot be read is no certificate.
	return out
}

// coverage checks that the webhook configurations that the controller writes are as it reported,
// that all parts protect the same namespaces, and that others exempt none.
func (r *reader) coverage() (State, string) {
	if r.noReport != "" {
		return Unknown, r.noReport
	}
	if r.report.CoverageError != "" {
		return Failed, r.report.CoverageError
	}
	total := 0
	for _, configuration := range r.configurations {
		total += len(configuration.webhooks)
		if configuration.name != coverage {
			continue
		}
		want, ok := r.report.Coverage[configuration.kind]
		switch {
		case !ok:
			return Unknown, "the controller has not reported it yet"
		case configuration.Presence == world.Unread:
			return Unknown, "not read"
		case settings.Fingerprint(configuration.webhooks) != want:
			return Failed, fmt.Sprintf("%s %s is not what the controller wrote last: requests may not be reviewed", configuration.kind, configuration.name)
		}
	}
	var warnings []string
	if message := r.protection(); message != "" {
		warnings = append(warnings, message)
	}
	if r.report.Foreign.Count > 0 {
		warnings = append(warnings, "others added requirements to namespaceSelectors, which can exempt namespaces: "+
			named(r.report.Foreign, ", "))
	}
	if len(warnings) > 0 {
		return Warning, strings.Join(warnings, "; ")
	}
	return OK, console.Count(total, "webhook") + ", in step with profiles and policies"
}

// version compares the versions of the parts.
func (r *reader) version() (State, string) {
	ours := console.Version
	theirs, known := r.w.Controller.Published[settings.Version]
	if !known {
		return Unknown, fmt.Sprintf("kubectl-curfew %s; that of the controller is not known", ours)
	}
	parts := []string{"kubectl-curfew " + ours, "controller " + theirs}
	state := OK
	if theirs != ours {
		state = Warning
	}
	if workload, err := r.w.Workload(r.ctx, "curfew-webhook"); err == nil && workload.Image != "" && r.w.Controller.Workload.Image != "" &&
		workload.Image != r.w.Controller.Workload.Image {
		state = Warning
		parts = append(parts, "image of the controller "+r.w.Controller.Workload.Image, "of the webhook "+workload.Image)
	}
	return state, strings.Join(parts, ", ")
}

// inTree shows whether kube-controller-manager's own TTL controller runs, which deletes Jobs by
// spec.ttlSecondsAfterFinished as well. Each controller of it has a ServiceAccount, which is made
// when that controller first starts.
func (r *reader) inTree() (State, string) {
	presence := func(name string) world.Presence {
		resource := corev1.SchemeGroupVersion.WithResource("serviceaccounts")
		_, presence, err := world.Read[corev1.ServiceAccount](r.ctx, r.w, resource, metav1.NamespaceSystem, name)
		if err != nil {
			r.note("%s", err)
		}
		return presence
	}
	const reads = "it deletes Jobs by spec.ttlSecondsAfterFinished, too"
	switch ttl := presence("ttl-after-finished-controller"); {
	case ttl == world.Found:
		return OK, "on, by its ServiceAccount: " + reads
	case ttl == world.Missing && presence("namespace-controller") == world.Found:
		return OK, "off: kube-controller-manager has never run it, by its ServiceAccounts"
	case ttl == world.Unread:
		r.note(`you may not get serviceaccounts in namespace "kube-system": whether Kubernetes' own TTL controller runs is not known`)
	}
	return Unknown, "on by Kubernetes' default: " + reads
}
