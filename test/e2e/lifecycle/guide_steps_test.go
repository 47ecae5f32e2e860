package lifecycle

// guides are the pages that [TestGuides] runs. TestTutorial runs tutorial.md, developers.md and
// ci.md.
var guides = []string{"how-to.md", "how-to-cli.md", "how-to-defaults.md", "how-to-pods.md", "how-to-training.md", "how-to-labels.md",
	"how-to-cleanup.md", "how-to-operate.md", "how-to-lint.md", "recipes.md", "training.md", "troubleshooting.md", "alerts.md", "install.md", "security.md",
	"reference-cleanup.md", "reference-flags.md", "reference-policies.md", "reference-precedence.md", "reference-signals.md", "reference-tallies.md",
	"from-in-tree.md", "from-k8s-cleaner.md", "from-kube-janitor.md", "from-kyverno.md", "from-tekton-pruner.md"}

// guideFolders are in the reader's folder, and where they are in the repository.
var guideFolders = map[string]string{"manifests": "manifests", "lint": "cmd/kubectl-curfew/testdata/docs",
	"foreign": "cmd/kubectl-curfew/convert/testdata", "examples": "cmd/kubectl-curfew/testdata/convert"}

// guideStep is what a block needs beside the page.
type guideStep struct {
	// before and after are for the shell.
	before, after string
	// replace has old and new texts.
	replace []string
	// apply creates the objects of a manifest. Others are only reviewed.
	apply bool
	// exit is the exit status that the page names.
	exit int
	// elsewhere says why the block does not run, or what runs or compares it.
	elsewhere string
}

const (
	comparedByCLI  = "the fixture of test/e2e/cli prints it, and TestPagesShowWhatWasPrinted compares"
	comparedByLint = "TestPagesShowWhatLintPrints compares"
	notServed      = "the kind is not served here"
	installs       = "manifests/release/e2e installs with Helm and with a single file"
	withNode       = "on a node, and on the hosts of the API server"
)

// guideSteps has blocks by their first line, or by kind and name of their first object.
var guideSteps = map[string]guideStep{
	// how-to-*.md
	"kubectl patch job report -n experiments --type merge -p \\":       {before: "kubectl create job report -n experiments --image busybox"},
	"$ kubectl create job hello -n experiments --image busybox":        {before: untilPrinted("kubectl create job probe -n experiments --image busybox --dry-run=server", "ttl-after-failed defaulted")},
	"$ kubectl curfew expiring -A --within 6h":                         {elsewhere: comparedByCLI},
	"$ kubectl curfew extend job/build -n ci --by 1d --dry-run=server": {elsewhere: comparedByCLI},
	"PodTally/prow-builds": {apply: true},
	"TrainJob/fine-tune":   {apply: true},
	"kubectl label deployment preview-42 curfew.dev/ttl=3d --overwrite": {
		before:  "kubectl create deployment preview-42 --image busybox; kubectl create configmap scratch",
		replace: []string{"2026-12-24", "2099-12-24"}},
	"LifecyclePolicy/previews-7-days": {apply: true},
	"$ kubectl label namespace pr-42 env=preview": {before: "kubectl create namespace probe; kubectl label namespace probe env=preview; " +
		untilPrinted("kubectl create configmap probe -n probe --dry-run=server", "defaulted to 7d")},
	"$ kubectl curfew preview unmounted-claims -o wide":                                                                   {elsewhere: "an excerpt of a run of many nights"},
	"kubectl curfew preview -f preview-config.yaml # what it would delete now, what it skips and why, its next five runs": {exit: 2}, // no report yet
	"kubectl curfew approve preview-config         # shows what it would delete, asks, and creates the approval": {
		before:  "kubectl patch clustercleanuppolicy preview-config --type merge -p '{\"spec\":{\"approval\":\"Required\"}}'",
		replace: []string{"approve", "approve --yes --spec-hash " + hashOf("preview-config")}},
	"kubectl curfew pause --reason 'Jobs of team-a are deleted too early, ticket 4711'":                               {before: "kubectl get namespace team-a || kubectl create namespace team-a", after: "kubectl curfew resume --all"},
	"$ kubectl curfew lint -f manifests -R":                                                                           {elsewhere: comparedByLint},
	"kustomize build overlays/prod | kubectl curfew lint -f platform/ -f -":                                           {elsewhere: "needs kustomize, Helm, and folders of the reader"},
	"kubectl curfew lint -f manifests -R --server":                                                                    {replace: []string{"-f manifests -R", "-f lint/manifests/build.yaml"}, exit: 1},
	"kubectl port-forward -n curfew-system service/curfew-webhook 8443:8443":                                          {elsewhere: "the webhook runs in no Pod here: TestHTTPAPIFollowsThePolicies"},
	`curl --cacert ca.crt -H "Authorization: Bearer $(kubectl create token ci-linter -n ci --audience curfew.dev)" \`: {elsewhere: "TestHTTPAPIFollowsThePolicies asks"},

	"kubectl curfew unused -A --older-than 30d --exclude-namespaces 'dev-*'": {before: "kubectl create namespace shop",
		after: "kubectl delete clustercleanuppolicy/unused-web-shop namespace/curfew-cleanup"},

	// recipes.md, troubleshooting.md
	"kubectl curfew preview -f manifests/samples/recipes/evicted-pods.yaml -o wide": {
		replace: []string{"approve evicted-pods", "approve evicted-pods --yes --spec-hash " + hashOf("evicted-pods")}},
	"$ kubectl curfew status": {elsewhere: comparedByCLI},
	`kubectl get job build -n ci -o jsonpath='{.spec.ttlSecondsAfterFinished}{"\n"}{.metadata.annotations}{"\n"}{.status.conditions}{"\n"}'`: {
		before: "kubectl create job build -n ci --image busybox"},
	"$ kubectl describe namespace rbac | grep -A3 Conditions": {before: "kubectl create namespace rbac"},
	"kubectl curfew pause --reason 'rollback of Curfew'":      {elsewhere: installs},

	// alerts.md
	"kubectl get apiservices | grep -v True":                                              {replace: []string{"GROUP/VERSION", "batch/v1"}},
	"kubectl get events -A --field-selector reason=Stuck":                                 {before: "kubectl create namespace exp; kubectl create job stuck -n exp --image busybox"},
	"kubectl get pods -n curfew-system -l app.kubernetes.io/component=controller -o wide": {replace: []string{"timedatectl ", "true # " + withNode}},
	"kubectl curfew status":                                                               {replace: []string{"kubectl describe certificate ", "true # "}},
	"kubectl top pods -n curfew-system -l app.kubernetes.io/component=webhook":            {elsewhere: "there is no metrics server"},

	// install.md
	"kubectl apply -k manifests/overlays/mine": {elsewhere: installs},
	"ClusterRole/delete-for-curfew":            {before: "kubectl get namespace team-a || kubectl create namespace team-a"},
	"$ kubectl curfew uninstall --dry-run":     {elsewhere: "TestUninstall"},
	"kubectl get certificate -n curfew-system": {elsewhere: "TestCertManager of test/e2e/serving"},

	"kubectl wait podtallies --all -A --for=condition=Releasing=false --timeout=10m": {elsewhere: "the trigger tally stays on here"},
	"Kustomization/": {elsewhere: "TestYAMLBlocks builds it"},

	// security.md
	"AdmissionConfiguration/": {elsewhere: "a file of the API server: test/e2e/serving"},
	"Config/":                 {elsewhere: "a kubeconfig of the API server: test/e2e/serving"},

	// reference-cleanup.md, reference-flags.md
	"$ kubectl get clustercleanuppolicy old-claims -o jsonpath='{.status.lastRun.skipped[*].message}'": {elsewhere: notServed},
	"$ kubectl curfew lint -f job.yaml": {elsewhere: comparedByLint},

	// reference-signals.md, reference-tallies.md
	"$ kubectl get events -n default --field-selector involvedObject.kind=Namespace,involvedObject.name=ci": {elsewhere: "an Event of a week"},
	"$ kubectl get podtally -n ci": {elsewhere: "the columns of some days: test/e2e/table_test.go"},

	// from-*.md
	"kubectl label deployment temp-nginx curfew.dev/ttl=24h":                             {before: "kubectl create deployment temp-nginx --image nginx"},
	"kubectl scale deployment tekton-pruner-controller -n tekton-pipelines --replicas=0": {before: "kubectl create namespace tekton-pipelines; kubectl create deployment tekton-pruner-controller -n tekton-pipelines --image busybox"},
	"kubectl get cleaners -o yaml | kubectl curfew convert -f - > policies.yaml":         {replace: []string{"kubectl get cleaners -o yaml", "cat foreign/cleaners.yaml"}, exit: 1},
	"kubectl curfew convert -f rules.yaml --deployment-time-annotation=none > policies.yaml": {
		replace: []string{"-f rules.yaml", "-f examples/rules.yaml", "kubectl get configmap kube-janitor -o yaml", "cat examples/rules.yaml"}},
	"kubectl get deletingpolicies,clustercleanuppolicies,policyexceptions.policies.kyverno.io -A -o yaml | kubectl curfew convert -f - > policies.yaml": {
		replace: []string{"kubectl get deletingpolicies,clustercleanuppolicies,policyexceptions.policies.kyverno.io -A -o yaml", "cat foreign/deletingpolicies.yaml", "-f kyverno/ -R --strict", "-f examples/pods.yaml --strict"}},
	"kubectl get configmap kyverno -n kyverno -o yaml > kyverno.yaml": {
		replace: []string{"kubectl get configmap kyverno -n kyverno -o yaml", "echo '{apiVersion: v1, kind: ConfigMap, metadata: {name: kyverno}, data: {resourceFilters: \"[Event,*,*]\"}}'",
			"kubectl get clustercleanuppolicies.kyverno.io -o yaml", "cat examples/pods.yaml"}},
}

// hashOf reads the hash of a ClusterCleanupPolicy, once the controller has read it as it is now.
func hashOf(policy string) string {
	field := func(path string) string {
		return "kubectl get clustercleanuppolicy " + policy + " -o jsonpath='{" + path + "}'"
	}
	return `"$(until test "$(` + field(".metadata.generation") + `)" = "$(` + field(".status.observedGeneration") + `)"; do :; done; ` + field(".status.specHash") + `)"`
}

// untilPrinted repeats a command until it prints something: the API server learns of changes a
// moment later.
func untilPrinted(command, part string) string {
	return "until " + command + " 2>&1 | command grep -q '" + part + "'; do :; done"
}
