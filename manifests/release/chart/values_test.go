package chart

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/manifests/release/chart/charttest"
)

const pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"

// changes are a value for each path in values.yaml that is not its default, and a text that only
// then is in what the chart renders. Empty means that something is missing then.
var changes = map[string]struct {
	value any
	shows string
}{
	"image.registry":     {"registry.example.com", `"image":"registry.example.com/curfew:v0.1.0"`},
	"image.repository":   {"registry.example.com/curfew", `"image":"registry.example.com/curfew:v0.1.0"`},
	"image.tag":          {"v1", `"image":"curfew:v1"`},
	"image.digest":       {"sha256:" + strings.Repeat("0", 64), `"image":"curfew@sha256:0`},
	"image.pullPolicy":   {"Always", `"imagePullPolicy":"Always"`},
	"imagePullSecrets":   {[]any{values{"name": "registry"}}, `"imagePullSecrets":[{"name":"registry"}]`},
	"triggers":           {[]any{"ttl", "label"}, `"--enable=ttl,label"`},
	"args":               {[]any{"--dry-run"}, `"--dry-run"`},
	"dryRun":             {true, `"--dry-run"`},
	"logLevel":           {2, `"--verbosity=2"`},
	"protect":            {[]any{"openshift-*"}, `"--protect=openshift-*"`},
	"certificates":       {"cert-manager", `"--certificates=cert-manager"`},
	"builtinProfiles":    {false, `"--builtin-profiles=false"`},
	"leaveNativeTTL":     {true, `"--leave-native-ttl"`},
	"deleteAnything":     {true, `"name":"curfew-controller-anything"`},
	"precreatedWebhooks": {true, `"name":"curfew-kinds"`},
	"restorers":          {[]any{"a:b"}, `request.userInfo.username != \"a:b\"`},
	"webhookKeys":        {[]any{"a.io/b"}, `[\"a.io/b\"]`},
	"failClosed":         {true, `"--fail-closed"`},
	"httpAPI":            {true, `"--api-addr=:8443"`},
	"highAvailability":   {true, `"replicas":3`},
	"monitoring":         {true, `"kind":"PrometheusRule"`},
	"tenantView":         {true, `"name":"curfew-tenant-view"`},
	"testNamespace":      {"curfew-test", `"kind":"Namespace"`},
	"commonLabels":       {values{"team": "platform"}, `"team":"platform"`},
	"issuerRef":          {values{"name": "corporate"}, `"issuerRef":{"name":"corporate"}`},
	"existingSecret":     {"mine", `"secretName":"mine"`},
	"caBundle":           {pem, `"caBundle":"LS0t`},

	"networkPolicy.enabled":        {true, `"kind":"NetworkPolicy"`},
	"networkPolicy.metricsFrom":    {[]any{values{"namespaceSelector": values{}}}, `"from":[{"namespaceSelector":{}}]`},
	"networkPolicy.apiServerPorts": {[]any{16443}, `"egress":[{"ports":[{"port":16443}]}]`},
	"metrics.secure":               {false, ""},
	"serviceMonitor.enabled":       {true, `"kind":"ServiceMonitor"`},
	"serviceMonitor.interval":      {"7s", `"interval":"7s"`},
	"serviceMonitor.labels":        {values{"release": "kps"}, `"release":"kps"`},

	"prometheusRule.labels": {values{"release": "kps"}, `"release":"kps"`},
	"podMonitor.labels":     {values{"release": "kps"}, `"release":"kps"`},
	"dashboard.labels":      {values{"grafana": "x"}, `"grafana":"x"`},
	"dashboard.annotations": {values{"folder": "x"}, `"annotations":{"folder":"x"}`},
	"rbac.create":           {false, ""},

	"waitForWebhook.enabled":        {false, ""},
	"waitForWebhook.timeout":        {"1m", `"--timeout=1m"`},
	"waitForWebhook.podAnnotations": {values{"a": "b"}, `"annotations":{"a":"b"}`},

	"extraObjects": {[]any{values{"kind": "Secret", "metadata": values{"name": "{{ .Release.Name }}-x"}}, "kind: ConfigMap\nmetadata: {name: y}"}, "secret-curfew-x"},

	"crds.install": {false, ""},
	"crds.keep":    {false, ""},

	"webhook.replicas":           {0, `"replicas":0`},
	"webhook.args":               {[]any{"--require-delete"}, `"--require-delete"`},
	"webhook.annotations":        {values{"a": "b"}, `"annotations":{"a":"b"}`},
	"webhook.port":               {9443, `"--port=9443"`},
	"webhook.serviceAnnotations": {values{"a": "b"}, `"annotations":{"a":"b"}`},
	"webhook.timeoutSeconds":     {9, `"timeoutSeconds":9`},
	"controller.leaseDuration":   {"30s", `"--lease-duration=30s"`},
	"webhook.healthPort":         {18081, `"--health-addr=:18081"`},
	"webhook.metricsPort":        {18080, `"--metrics-addr=:18080"`},
	"webhook.httpAPIPort":        {18443, `"--api-addr=:18443"`},
	"webhook.hostNetwork":        {true, `"hostNetwork":true`},
	"controller.replicas":        {1, `"replicas":1`},
	"controller.args":            {[]any{"--require-approval"}, `"--require-approval"`},
}

// each are the values that both Deployments have.
var each = map[string]struct {
	value any
	shows string
}{
	"resources":                 {values{"requests": values{"memory": "9Gi"}}, `"memory":"9Gi"`},
	"deploymentAnnotations":     {values{"a": "b"}, `"annotations":{"a":"b"}`},
	"strategy":                  {values{"type": "Recreate"}, `"strategy":{"type":"Recreate"}`},
	"podDisruptionBudget":       {values{"minAvailable": 1}, `"minAvailable":1`},
	"serviceAccount":            {values{"automount": false, "annotations": values{"a": "b"}}, `"annotations":{"a":"b"}`},
	"containerSecurityContext":  {values{"runAsUser": 5}, `"securityContext":{"runAsUser":5}`},
	"extraContainers":           {[]any{values{"name": "proxy"}}, `{"name":"proxy"}`},
	"readinessProbe":            {values{"periodSeconds": 7}, `"httpGet":{"path":"/readyz","port":"health"},"periodSeconds":7`},
	"livenessProbe":             {values{"timeoutSeconds": 7}, `"periodSeconds":10,"timeoutSeconds":7`},
	"podAnnotations":            {values{"a": "b"}, `"annotations":{"a":"b"}`},
	"podLabels":                 {values{"azure.workload.identity/use": "true"}, `"azure.workload.identity/use":"true"`},
	"extraEnv":                  {[]any{values{"name": "A", "value": "b"}}, `"env":[{"name":"A","value":"b"}]`},
	"extraVolumes":              {[]any{values{"name": "v", "emptyDir": values{}}}, `"volumes":[{"emptyDir":{},"name":"v"}]`},
	"extraVolumeMounts":         {[]any{values{"name": "v", "mountPath": "/v"}}, `"volumeMounts":[{"mountPath":"/v","name":"v"}]`},
	"securityContext":           {values{"runAsNonRoot": true}, `"securityContext":{"runAsNonRoot":true},"serviceAccountName":"curfew-`},
	"topologySpreadConstraints": {[]any{values{"maxSkew": 3}}, `"topologySpreadConstraints":[{"maxSkew":3}]`},
	"nodeSelector":              {values{"disk": "ssd"}, `"nodeSelector":{"disk":"ssd","kubernetes.io/os":"linux"}`},
	"tolerations":               {[]any{values{"operator": "Exists"}}, `"tolerations":[{"operator":"Exists"}]`},
	"affinity":                  {values{"podAffinity": values{"x": "y"}}, `"affinity":{"podAffinity":{"x":"y"}}`},
	"priorityClassName":         {"high", `"priorityClassName":"high"`},
}

func init() {
	for name, change := range each {
		changes["webhook."+name], changes["controller."+name] = change, change
	}
}

// beside names the value without which another has no effect.
var beside = map[string]string{
	"issuerRef":                    "certificates",
	"networkPolicy.metricsFrom":    "networkPolicy.enabled",
	"networkPolicy.apiServerPorts": "networkPolicy.enabled",
	"prometheusRule.labels":        "monitoring",
	"podMonitor.labels":            "monitoring",
	"dashboard.labels":             "monitoring",
	"dashboard.annotations":        "monitoring",
	"serviceMonitor.interval":      "serviceMonitor.enabled",
	"serviceMonitor.labels":        "serviceMonitor.enabled",
	"webhook.httpAPIPort":          "httpAPI",
	"caBundle":                     "existingSecret",
}

// nest is a value at a path.
func nest(path string, value any) values { return put(values{}, path, value) }

// put sets the value at a path.
func put(into values, path string, value any) values {
	key, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		into[key] = value
		return into
	}
	inner, _ := into[key].(values)
	if inner == nil {
		inner = values{}
	}
	into[key] = put(inner, rest, value)
	return into
}

// TestValues: what a value changes beyond the text that TestEveryValueDoesSomething looks for. Empty
// text demands that the object is absent; one that begins with ! must not be in it.
func TestValues(t *testing.T) {
	const webhook, controller = "deployment-curfew-webhook", "deployment-curfew-controller"
	const mutating, validating = "mutatingwebhookconfiguration-curfew", "validatingwebhookconfiguration-curfew"
	const secretsRole = "role-curfew-webhook-certificates"
	linux := `"nodeSelector":{"kubernetes.io/os":"linux"}`
	for name, test := range map[string]struct {
		set  values
		want map[string][]string
	}{
		"defaults": {nil, map[string][]string{
			webhook: {linux, "!priorityClassName"}, controller: {linux, "!priorityClassName"}, "resourcequota-curfew-critical-pods": {""},
		}},
		"failClosed": {values{"failClosed": true}, map[string][]string{
			webhook: {`"priorityClassName":"system-cluster-critical"`}, controller: {"!priorityClassName"},
			"resourcequota-curfew-critical-pods": {`"values":["system-cluster-critical"]`},
		}},
		"failClosed with a class": {values{"failClosed": true, "webhook": values{"priorityClassName": "high"}}, map[string][]string{
			webhook: {`"priorityClassName":"high"`, "!system-cluster-critical"},
		}},
		"an Issuer": {values{"certificates": "cert-manager", "issuerRef": values{"name": "corporate", "kind": "ClusterIssuer"}}, map[string][]string{
			"certificate-curfew-webhook":    {`"issuerRef":{"kind":"ClusterIssuer","name":"corporate"}`},
			"certificate-curfew-webhook-ca": {""}, "issuer-curfew-webhook-ca": {""}, "issuer-curfew-self-signed": {""},
			mutating: {`"cert-manager.io/inject-ca-from":"curfew-system/curfew-webhook"`},
		}},
		"a Secret": {values{"existingSecret": "mine", "caBundle": pem}, map[string][]string{
			webhook: {`"secretName":"mine"`, `"--certificates=cert-manager"`}, secretsRole: {""},
			"certificate-curfew-webhook": {""}, "issuer-curfew-webhook-ca": {""},
			mutating: {"!inject-ca", `"caBundle":"LS0t`}, validating: {"!inject-ca", `"caBundle":"LS0t`},
		}},
		"a CA that is left from a Secret": {values{"caBundle": pem}, map[string][]string{
			webhook: {"!secretName"}, mutating: {"!caBundle"}, validating: {"!caBundle"},
		}},
		"a Secret, and cert-manager": {values{"existingSecret": "mine", "certificates": "cert-manager",
			"webhook": values{"annotations": values{"cert-manager.io/inject-ca-from-secret": "curfew-system/mine"}}}, map[string][]string{
			webhook: {`"secretName":"mine"`}, secretsRole: {""}, "certificate-curfew-webhook": {""},
			mutating: {`"annotations":{"cert-manager.io/inject-ca-from-secret":"curfew-system/mine"}`, "!caBundle"},
		}},
		"annotations beside cert-manager's": {values{"certificates": "cert-manager", "precreatedWebhooks": true, "webhook": values{
			"annotations": values{"a.example.com/b": "true"}}}, map[string][]string{
			validating: {`"annotations":{"a.example.com/b":"true","cert-manager.io/inject-ca-from":"curfew-system/curfew-webhook"}`},
			"validatingwebhookconfiguration-curfew-kinds": {`"a.example.com/b":"true"`},
		}},
		"a volume beside cert-manager's": {values{"certificates": "cert-manager", "webhook": values{
			"extraVolumes": []any{values{"name": "v"}}, "extraVolumeMounts": []any{values{"name": "v", "mountPath": "/v"}}}}, map[string][]string{
			webhook: {`"mountPath":"/etc/curfew/tls"`, `"mountPath":"/v"`, `"secretName":"curfew-webhook-tls"}},{"name":"v"}]`},
		}},
		"the host's network": {values{"httpAPI": true, "webhook": values{"hostNetwork": true, "port": 10250, "healthPort": 18081, "metricsPort": 18080,
			"httpAPIPort": 18443}}, map[string][]string{
			webhook: {`"dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true`, `"maxUnavailable":1`, `"--port=10250"`, `"containerPort":10250,"name":"webhook"`,
				`"containerPort":18081,"name":"health"`, `"containerPort":18080,"name":"metrics"`, `"--api-addr=:18443"`, `"containerPort":18443,"name":"api"`,
				"!9443", "!:8081", "!:8080", "!:8443"},
			controller:               {"!hostNetwork", `"--health-addr=:8081"`},
			"service-curfew-webhook": {`"port":443,"protocol":"TCP","targetPort":"webhook"`, `"port":8443,"protocol":"TCP","targetPort":"api"`},
		}},
		"secure metrics": {values{"monitoring": true}, map[string][]string{
			webhook: {`"--metrics-secure"`}, controller: {`"--metrics-secure"`}, "clusterrole-curfew-metrics-auth": {`"tokenreviews"`},
			"podmonitor-curfew-webhook":                {`"authorization":{"credentials":{"key":"token","name":"curfew-metrics-token"}}`, `"scheme":"https"`},
			"secret-curfew-metrics-token":              {`"kubernetes.io/service-account.name":"curfew-metrics"`},
			"clusterrolebinding-curfew-metrics-reader": {`"subjects":[{"kind":"ServiceAccount","name":"curfew-metrics","namespace":"curfew-system"}]`},
		}},
		"plain metrics": {values{"monitoring": true, "serviceMonitor": values{"enabled": true}, "metrics": values{"secure": false}}, map[string][]string{
			webhook: {"!--metrics-secure"}, "clusterrole-curfew-metrics-auth": {""}, "secret-curfew-metrics-token": {""},
			"servicemonitor-curfew": {"!https", "!authorization"},
		}},
		"roles of your own": {values{"rbac": values{"create": false}, "webhook": values{"serviceAccount": values{"create": false}}}, map[string][]string{
			"clusterrole-curfew-controller": {""}, secretsRole: {""}, "clusterrolebinding-curfew-controller": {""}, "serviceaccount-curfew-webhook": {""}, "job-curfew-wait": {""},
			"serviceaccount-curfew-controller": {"!automount"}, "validatingadmissionpolicy-curfew-status": {`"failurePolicy":"Fail"`},
		}},
		"no webhook": {values{"webhook": values{"replicas": 0}}, map[string][]string{"job-curfew-wait": {""}}},
		"a ServiceMonitor": {values{"monitoring": true, "serviceMonitor": values{"enabled": true}}, map[string][]string{
			"podmonitor-curfew-webhook": {""}, "podmonitor-curfew-controller": {""}, "prometheusrule-curfew": {"alert"},
			"servicemonitor-curfew":  {`"scheme":"https"`, `"name":"curfew-metrics-token"`, `"matchLabels":{"app.kubernetes.io/component":"metrics","app.kubernetes.io/name":"curfew"}`},
			"service-curfew-metrics": {`"app.kubernetes.io/component":"metrics"`, `"selector":{"app.kubernetes.io/name":"curfew","app.kubernetes.io/part-of":"curfew"}`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, _ := render(t, namespace, test.set)
			for name, texts := range test.want {
				shown := ""
				if objects[name] != nil {
					shown = show(objects[name])
				}
				for _, text := range texts {
					without, not := strings.CutPrefix(text, "!")
					if text == "" && shown != "" || not && strings.Contains(shown, without) || !not && !strings.Contains(shown, text) || text != "" && shown == "" {
						t.Errorf("%s: want %q in %s", name, text, shown)
					}
				}
			}
		})
	}
}

// TestNotes: NOTES.txt says the next commands, with the namespace that they need.
func TestNotes(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		set       values
		want      []string
	}{
		"dry run":  {namespace, values{"dryRun": true}, []string{"Nothing is deleted yet", "--reset-then-reuse-values --set dryRun=false\n"}},
		"defaults": {namespace, nil, []string{"Deletion has begun", "status --wait\n", "expiring -A --within 1d\n", "curfew.dev/default-ttl=1d\n"}},
		"elsewhere": {"other", values{"testNamespace": "curfew-test"}, []string{"status --wait --curfew-namespace other\n",
			"expiring -A --within 1d --curfew-namespace other\n", "label namespace other pod", "helm test curfew -n other\n"}},
		"a Secret": {namespace, values{"existingSecret": "mine"}, []string{"CA of Secret mine"}},
		"the host": {namespace, values{"webhook": values{"hostNetwork": true}}, []string{"level privileged"}},
	} {
		_, notes := render(t, test.namespace, test.set)
		for _, text := range test.want {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: want %q in\n%s", name, text, notes)
			}
		}
		if name == "defaults" && (strings.Contains(notes, "helm test") || strings.Contains(notes, "not ready") || strings.Contains(notes, "privileged")) {
			t.Errorf("%s: there is more than applies in\n%s", name, notes)
		}
	}
}

// TestCommonLabels: every object and every Pod has them, whatever else is set, and no selector.
func TestCommonLabels(t *testing.T) {
	var every []values
	for _, set := range switches {
		every = append(every, set)
	}
	every = append(every, values{"serviceMonitor": values{"enabled": true},
		"testNamespace": "curfew-test", "webhook": values{"podLabels": values{"own": "x"}}, "commonLabels": values{"team": "a", "number": "1"}})
	objects, _ := render(t, namespace, asBase(every...))
	for id, o := range objects {
		labels, _ := o["metadata"].(object)["labels"].(object)
		if labels["team"] != "a" || labels["number"] != "1" {
			t.Errorf("%s has the labels %v", id, labels)
		}
		spec, _ := o["spec"].(object)
		if strings.Contains(show(object{"": spec["selector"]}), "team") {
			t.Errorf("%s selects by %v", id, spec["selector"])
		}
		if o["kind"] == "Deployment" {
			labels := spec["template"].(object)["metadata"].(object)["labels"].(object)
			if labels["team"] != "a" || (labels["own"] == "x") != (id == "deployment-curfew-webhook") {
				t.Errorf("Pods of %s have the labels %v", id, labels)
			}
		}
	}
	if len(objects) < 10 {
		t.Errorf("only %d objects", len(objects))
	}
}

// TestUpgradeReusesValues: helm upgrade --reuse-values renders a chart with the values of an older
// one, which lack those added since. They have their defaults, except that metrics stay as they were.
func TestUpgradeReusesValues(t *testing.T) {
	older, err := os.ReadFile(filepath.Join("testdata", "values-first.yml"))
	must(t, err)
	chart, err := files()
	must(t, err)
	chart = maps.Clone(chart)
	chart["values.yaml"] = older
	const released = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	for image, set := range map[string]values{"curfew@" + released: nil, "curfew:v9": {"image": values{"tag": "v9"}}} {
		next := maps.Clone(chart)
		next["Chart.yaml"] = bytes.Replace(next["Chart.yaml"], []byte("annotations:\n"), []byte("annotations:\n  curfew.dev/image-digest: "+released+"\n"), 1)
		rendered, _, err := charttest.Render(next, namespace, set)
		if err != nil || !strings.Contains(rendered, image) {
			t.Errorf("with %v: %v; image %s is not there", set, err, image)
		}
	}
	manifests, _, err := charttest.Render(chart, namespace, nil)
	must(t, err)
	objects, err := decode([]byte(manifests))
	must(t, err)
	want, _ := render(t, namespace, values{"metrics": values{"secure": false}, "waitForWebhook": values{"enabled": false}})
	same(t, named(objects), want)
}
