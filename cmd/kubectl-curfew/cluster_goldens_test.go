package main

import (
	"fmt"
	"strings"

	"curfew.dev/curfew/policy"
)

func words(line string) []string { return strings.Fields(line) }

// pipedObjects are objects as kubectl get -o json prints them. One of them was created again since.
const pipedObjects = `{"apiVersion": "v1", "kind": "List", "items": [
	{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "ci", "name": "build", "uid": "earlier"}},
	{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "demo"}}]}`

const (
	byCleanup  = `{"object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "%s"}, "trigger": "%s"}`
	expiryList = `{"apiVersion": "cli.curfew.dev/v1alpha1", "kind": "ExpiryList", "items": [%s]}`
)

// pipedCleanup is output of expiring -o json: an object with a label that a cleanup policy deletes
// as well, and one that only the policy deletes. cleanupAlone has only the second one.
var (
	cleanupAlone = fmt.Sprintf(expiryList, fmt.Sprintf(byCleanup, "plain", policy.TriggerCleanup))
	pipedCleanup = fmt.Sprintf(expiryList, fmt.Sprintf(byCleanup, "plain", policy.TriggerCleanup)+", "+
		fmt.Sprintf(byCleanup, "demo", policy.TriggerCleanup)+", "+fmt.Sprintf(byCleanup, "demo", policy.TriggerLabel))
)

// clusterGoldens are command lines that ask the cluster of testdata/cluster.
var clusterGoldens = map[string]golden{
	"expiring":                    {args: words("expiring -A")},
	"expiring-wide":               {args: words("expiring -A -o wide")},
	"expiring-json":               {args: words("expiring -n foo -o json")},
	"expiring-yaml":               {args: words("expiring -n ci -o yaml")},
	"expiring-name":               {args: words("expiring -n foo -o name")},
	"expiring-here":               {args: words("expiring")},
	"expiring-kinds":              {args: words("expiring deploy,job.batch cm -A")},
	"expiring-cluster-scoped":     {args: words("expiring clusterroles -n foo")},
	"expiring-nothing":            {args: words("expiring -n ci --within 1m")},
	"expiring-nothing-of":         {args: words("expiring deploy,jobs -n ci -l app=web --trigger label --source namespace/ci --ttl-longer-than 7d --within 1h")},
	"expiring-nothing-longer":     {args: words("expiring -n dry --ttl-longer-than 7d")},
	"expiring-both":               {args: words("expiring -A -l app=both")},
	"expiring-empty-flags":        {args: []string{"expiring", "-A", "--within=", "--trigger", "", "--source="}, code: 2},
	"expiring-bad-source":         {args: words("expiring --source ci"), code: 2},
	"expiring-labels":             {args: words("expiring -A -l app=web")},
	"expiring-trigger":            {args: words("expiring -A --trigger deadline")},
	"expiring-source":             {args: words("expiring -A --source policy/research")},
	"expiring-controller-may-not": {args: words("expiring -n foo"), scene: scene{notAllowed: []string{"delete deployments.apps", "delete deployments"}}},
	"expiring-forbidden":          {args: words("expiring -n foo"), scene: scene{notMine: []string{"list secrets", "list persistentvolumeclaims", "list lifecyclepolicies", "get namespaces", "get configmaps", "list deployments", "create subjectaccessreviews"}}},
	"expiring-forbidden-kind":     {args: words("expiring deployments -n foo"), scene: scene{notMine: []string{"list deployments"}}, code: 2},
	"expiring-unknown-kind":       {args: words("expiring gadgets -A"), code: 2},
	"expiring-kind-that-stays":    {args: words("expiring bindings -A"), code: 2},
	"expiring-bad-flags":          {args: []string{"expiring", "job/a", "--within", "soon", "--before", "11:00", "--ttl-longer-than", "x", "-o", "xml", "-l", "a==b==c", "--trigger", "whim", "--with", "testdata/quick.yaml"}, code: 2},
	"expiring-within-exactly":     {args: words("expiring pvc -n foo --within 4h")},
	"expiring-longer-exactly":     {args: words("expiring cm -n default --ttl-longer-than 14d")},
	"expiring-longer-no-deadline": {args: words("expiring jobs -n ci --ttl-longer-than 1m")},
	"expiring-longer-within":      {args: words("expiring jobs -n ci --ttl-longer-than 1m --within 24h")},
	"expiring-with-absent":        {args: words("expiring -A --with testdata/absent.yaml"), code: 2},
	"expiring-with-foreign":       {args: words("expiring -A --with testdata/foreign.yaml"), code: 2},
	"expiring-with-stdin":         {args: words("expiring -A --with -"), scene: scene{stdin: "kind: LifecyclePolicy"}, code: 2},
	"expiring-with-unknown-field": {args: words("expiring -A --with testdata/misspelt.yaml"), code: 2},
	"expiring-with-unusable":      {args: words("expiring -A --with testdata/unusable.yaml"), code: 2},
	"expiring-watch-name":         {args: words("expiring -n ci --watch -o name"), code: 2},
	"expiring-over":               {args: words("expiring -A --before 11:00")},
	"expiring-no-unit":            {args: words("expiring -A --within 6"), code: 2},
	"expiring-over-day":           {args: []string{"expiring", "-A", "--before", "yesterday"}},
	"expiring-phrase":             {args: []string{"expiring", "-A", "--between", "3h..tuesday 5pm"}},
	"expiring-left-over":          {args: []string{"expiring", "-A", "--before", "friday 17:00 please"}, code: 2},

	"pause":           {args: words("pause --name stop --reason incident")},
	"pause-some":      {args: words("pause --name restore -n ci,team-* --trigger ttl,label --for 2h --reason restore")},
	"pause-label":     {args: words("pause --name stop --trigger label --reason incident")},
	"pause-dry-run":   {args: words("pause --name stop --reason incident --dry-run=server")},
	"pause-bad-flags": {args: words("pause --trigger tally --for 0s"), code: 2},
	"pause-forbidden": {args: words("pause --name stop --reason incident"), scene: scene{notMine: []string{"create deletionpauses"}}, code: 2},
	"pause-uncounted": {args: words("pause --name stop --reason incident"), scene: scene{notMine: []string{"list jobs"}}},
	"resume-nothing":  {args: words("resume"), code: 2},
	"resume-absent":   {args: words("resume gone"), code: 2},

	// The seed questions, each with the line of the help. Lines with a time use the time of the tests.
	"question-1": {args: words("expiring -A --within 6h")},
	"question-2": {args: words("expiring deployments -A --before 17:00")},
	"question-3": {args: []string{"expiring", "-n", "foo", "--between", "now..friday 17:00"}},
	"question-4": {args: words("expiring -A --ttl-longer-than 7d")},
	"question-5": {args: words("expiring -A --within may")},
	"question-6": {args: words("expiring -A --with testdata/policy.yaml --source policy/nightly --before now")},
	"question-7": {args: words("explain job/build -n ci")},

	"explain-active":      {args: words("explain job active -n ci")},
	"explain-kept":        {args: words("explain job/kept -n foo")},
	"explain-missed":      {args: words("explain job/missed -n lab")},
	"explain-protected":   {args: words("explain job/protected -n foo")},
	"explain-unreadable":  {args: words("explain job/unreadable -n foo")},
	"explain-outcomes":    {args: words("explain job/outcomes -n foo")},
	"explain-undecided":   {args: words("explain job/undecided -n foo")},
	"explain-dry-run":     {args: words("explain job/report -n dry")},
	"explain-paused":      {args: words("explain job/due job/own -n refused")},
	"explain-unknown":     {args: words("explain job/own -n refused"), scene: scene{notMine: []string{"get namespaces", "get configmaps", "get leases", "get deployments"}}},
	"explain-runtime":     {args: words("explain trainjob/tune -n lab")},
	"explain-backfill":    {args: words("explain trainjob/earlier -n lab")},
	"explain-label":       {args: words("explain cm/demo")},
	"explain-no-label":    {args: words("explain cm/plain")},
	"explain-system":      {args: words("explain cm/system -n kube-system")},
	"explain-finalizer":   {args: words("explain pvc/data -n foo")},
	"explain-terminating": {args: words("explain secret/stuck -n foo")},
	"explain-owned":       {args: words("explain rs/web-1 -n foo")},
	"explain-cluster":     {args: words("explain clusterrole/guest")},
	"explain-pod":         {args: words("explain pod/once -n foo")},
	"explain-json":        {args: words("explain job/build -n ci -o json")},
	"explain-two":         {args: words("explain cm/demo job.batch/missed -n lab"), code: 2},
	"explain-two-forms":   {args: words("explain job/build active -n ci"), code: 2},
	"explain-everywhere":  {args: words("explain jobs -A -l app=both")},
	"explain-may-not":     {args: words("explain cm/plain"), scene: scene{notAllowed: []string{"delete configmaps"}}},
	"explain-unclear":     {args: words("explain pod/unclear -n foo")},
	"explain-none":        {args: words("explain cm -l app=none"), code: 2},
	"explain-selector":    {args: words("explain cm -l app=demo -o yaml")},
	"explain-forbidden":   {args: words("explain job/build -n ci"), scene: scene{notMine: []string{"get namespaces", "list lifecyclepolicies", "patch jobs", "create subjectaccessreviews"}}},
	"explain-missing":     {args: words("explain job/nowhere -n ci"), code: 2},
	"explain-nothing":     {args: words("explain"), code: 2},
	"explain-kind-alone":  {args: words("explain jobs"), code: 2},

	"extend-by":             {args: words("extend job/build -n ci --by 1d")},
	"extend-until":          {args: []string{"extend", "job/build", "-n", "ci", "--until", "2026-12-27 12:00", "-o", "json"}},
	"extend-to":             {args: words("extend job/plain job/build -n ci --to 3d"), code: 2},
	"extend-beyond-bound":   {args: words("extend job/build -n ci --by 30d"), code: 1},
	"extend-active":         {args: words("extend job/active -n ci --by 1h"), code: 1},
	"extend-outcomes":       {args: words("extend job/outcomes -n foo --by 1h")},
	"extend-live-default":   {args: words("extend job/missed -n lab --by 1h")},
	"extend-runtime":        {args: words("extend trainjob/tune -n lab --by 1h"), code: 1},
	"extend-label":          {args: words("extend cm/demo --by 2d")},
	"extend-label-until":    {args: []string{"extend", "cm/demo", "--until", "2027-02-01T08:30:15Z"}},
	"extend-end-of-month":   {args: []string{"extend", "cm/demo", "--until", "2027-02-01"}},
	"extend-date":           {args: words("extend cm/demo-2 --by 36h")},
	"extend-never-shortens": {args: words("extend cm/demo-2 --until tomorrow")},
	"extend-nothing-to":     {args: words("extend cm/plain --by 1d")},
	"extend-gives-label":    {args: words("extend cm/plain --to 3d")},
	"extend-until-as-it-is": {args: words("extend cm/demo --until 2027-01-07T08:00:00Z")},
	"extend-to-overdue":     {args: words("extend cm/plain --to 3h"), code: 1},
	"extend-unclear":        {args: words("extend pod/unclear -n foo --by 1h")},
	"extend-unclear-until":  {args: words("extend pod/unclear -n foo --until tomorrow"), code: 1},
	"keep-unclear":          {args: words("keep pod/unclear -n foo --dry-run=client")},
	"extend-to-the-same":    {args: words("extend job/own -n refused --to 7000")},
	"extend-too-long":       {args: words("extend job/own -n refused --by 2147480000"), code: 1},
	"extend-terminating":    {args: words("extend secret/stuck -n foo --by 1d"), code: 1},
	"extend-dry-run":        {args: words("extend job/build -n ci --by 1d --dry-run=client")},
	"extend-server-dry-run": {args: words("extend job/build -n ci --by 1d --dry-run=server")},
	"extend-many-unasked":   {args: words("extend cm -l app=demo --by 1d"), code: 2},
	"extend-two-unasked":    {args: words("extend cm/demo cm/demo-2 --by 1d"), code: 2},
	"extend-many-dry-run":   {args: words("extend cm -l app=demo --by 1d --dry-run=client")},
	"extend-many-asked":     {args: words("extend cm -l app=demo --by 1d"), scene: scene{terminal: true, stdin: "y\n"}},
	"extend-many-declined":  {args: words("extend cm -l app=demo --by 1d"), scene: scene{terminal: true, stdin: "\n"}, code: 1},
	"extend-many-yes":       {args: words("extend cm -l app=demo --by 1d -y -o name")},
	"extend-many-nothing":   {args: []string{"extend", "cm", "-l", "app=demo", "--until", "tomorrow"}},
	"extend-forbidden":      {args: words("extend job/build -n ci --by 1d"), scene: scene{notMine: []string{"patch jobs"}}, code: 1},
	"extend-how-much":       {args: words("extend job/build -n ci"), code: 2},
	"extend-two-ways":       {args: words("extend cm/demo --by 1d --to 20d"), code: 2},
	"extend-by-nothing":     {args: words("extend cm/demo --by 0"), code: 2},
	"extend-to-nothing":     {args: words("extend cm/demo --to 0"), code: 2},
	"extend-until-now":      {args: words("extend cm/demo --until now"), code: 2},
	"extend-past":           {args: words("extend job/build -n ci --until 11:00"), code: 2},
	"extend-never":          {args: words("extend job/build -n ci --to never"), code: 2},

	"expire-now":             {args: words("expire-now job/build -n ci")},
	"expire-now-active":      {args: words("expire-now job/active -n ci")},
	"expire-now-protected":   {args: words("expire-now job/protected -n foo"), code: 1},
	"expire-now-system":      {args: words("expire-now cm/system -n kube-system"), code: 1},
	"expire-now-unreadable":  {args: words("expire-now job/unreadable -n foo")},
	"expire-now-namespace":   {args: words("expire-now ns/foo --dry-run=client")},
	"expire-now-terminating": {args: words("expire-now secret/stuck -n foo")},
	"expire-now-permission":  {args: words("expire-now cm/demo"), scene: scene{notAllowed: []string{"delete configmaps"}}, code: 1},

	"keep":            {args: words("keep job/build -n ci"), code: 1},
	"keep-unbounded":  {args: words("keep job/report -n dry")},
	"keep-label":      {args: words("keep cm/demo")},
	"keep-outcomes":   {args: words("keep job/outcomes -n foo")},
	"keep-runtime":    {args: words("keep trainjob/tune -n lab")},
	"keep-default":    {args: words("keep job/missed -n lab")},
	"keep-nothing":    {args: words("keep cm/plain")},
	"keep-all":        {args: words("keep cm --all -n default --yes")},
	"keep-everywhere": {args: words("keep cm -l app=demo -A --yes")},

	// An object of a list is changed in its own namespace, and only if it still is the same object.
	"pipe-extend":            {args: words("extend -f testdata/expiring.json --by 1d --yes"), code: 1},
	"pipe-expire-now":        {args: words("expire-now -f - --yes -o name"), scene: scene{stdin: pipedObjects}},
	"pipe-unasked":           {args: words("extend -f - --by 1d"), scene: scene{stdin: pipedObjects}, code: 2},
	"pipe-manifest":          {args: words("keep -f - -n lab --dry-run=client"), scene: scene{stdin: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: missed}\n"}},
	"pipe-empty":             {args: words("keep -f -"), scene: scene{stdin: `{"apiVersion":"cli.curfew.dev/v1alpha1","kind":"ExpiryList","items":[]}`}},
	"pipe-cleanup":           {args: words("extend -f - --by 1d --yes"), scene: scene{stdin: pipedCleanup}},
	"pipe-cleanup-alone":     {args: words("expire-now -f -"), scene: scene{stdin: cleanupAlone}},
	"pipe-nothing":           {args: words("keep -f -"), code: 2},
	"pipe-strange":           {args: words("keep -f -"), scene: scene{stdin: "apiVersion: v1\nkind: Pod\n"}, code: 2},
	"pipe-unknown":           {args: words("keep -f -"), scene: scene{stdin: "apiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n"}, code: 2},
	"pipe-and-names":         {args: words("keep job/build -f -"), scene: scene{stdin: pipedObjects}, code: 2},
	"output-name-everywhere": {args: words("expiring -A -o name"), code: 2},
	"output-name-changing":   {args: words("keep cm -l app=demo -A --yes -o name"), code: 2},
}
