package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// What shows each row of the tables of the reference in docs. A row without a test fails
// TestEveryRowHasATest; one whose test does not make the rule speak fails the run, which asks the
// API server's audit log at its end.

// keyRows are Curfew's annotations and labels.
var keyRows = map[string][]func(*testing.T){
	wellknown.AnnotationDefaultTTL:          {TestDefaultTTLIsFilledInAndAnnounced, TestPatchCreatesParents, TestDefaultsAreCarriedOut, TestJobSetDefaults, TestTrainJobDefaults},
	wellknown.AnnotationDefaultTTLSucceeded: {TestDefaultsByOutcomeAreAnnotations, TestTTLByOutcome},
	wellknown.AnnotationDefaultTTLFailed:    {TestDefaultsByOutcomeAreAnnotations, TestTTLByOutcome, TestPrecedence},
	wellknown.AnnotationDefaultPodTTL:       {TestDefaultPodTTL, TestPodsOfAJobGoOnlyWhenAccountedFor},
	wellknown.AnnotationDefaultDeadline:     {TestDefaultDeadline, TestJobSetDefaults, TestTrainJobDefaults},
	wellknown.AnnotationMinTTL:              {TestBounds, TestBoundsHoldForLabels},
	wellknown.AnnotationMaxTTL:              {TestBounds, TestBoundsHoldForLabels, TestPolicyBounds, TestRemovingADefault, TestJobSetRules},
	wellknown.AnnotationMinDeadline:         {TestDeadlineBounds, TestJobSetRules},
	wellknown.AnnotationMaxDeadline:         {TestDeadlineBounds, TestTrainJobDefaults},
	wellknown.AnnotationMode:                {TestModeWarn, TestModeDryRun, TestPolicyDefaults, TestStrictOptions},
	wellknown.AnnotationBackfill:            {TestDefaultDoesNotReachWhatIsOlder, TestPolicyDoesNotReachWhatIsOlder},
	wellknown.AnnotationDefaultSince:        {TestCurfewsOwnKeysOnNamespaces},
	wellknown.LabelInUse:                    {TestCurfewsOwnKeysOnNamespaces, TestUnusedNamespaceIsLeftAlone},
	wellknown.LabelPodsInUse:                {TestCurfewsOwnKeysOnNamespaces, TestTallyFinalizer},

	wellknown.AnnotationTTL:            {TestJobVanishesAtItsSecond, TestPodVanishesAtItsSecond, TestProtectAndNever, TestObjectValues, TestRuntimePrecedence},
	wellknown.AnnotationTTLSucceeded:   {TestObjectValues, TestAnnotationsBesideTheNativeField, TestJobSetVanishesAtItsSecond},
	wellknown.AnnotationTTLFailed:      {TestObjectValues, TestAnnotationsBesideTheNativeField, TestJobSetVanishesAtItsSecond},
	wellknown.AnnotationPodTTL:         {TestPodTTL, TestJobsWithoutTheirFinishedPods, TestJobOfManyCompletions},
	wellknown.AnnotationActiveDeadline: {TestJobSetRules, TestAnnotationsWithoutEffect, TestTrainJobDeadlineIsImmutable},
	wellknown.AnnotationProtect:        {TestProtectAndNever, TestAnnotationsBesideTheNativeField, TestJobSetDefaults},
	wellknown.AnnotationTTLSource:      {TestOwnTTLWins, TestSourcesAreNotForAuthors, TestPrecedence, TestRuntimePrecedence},
	wellknown.AnnotationDeadlineSource: {TestDefaultDeadline, TestSourcesAreNotForAuthors},
	wellknown.AnnotationLabelSource:    {TestDefaultLabelsOfNewObjects},
	wellknown.AnnotationDeleted:        {TestSourcesAreTold},
	wellknown.AnnotationFinishedAt:     {TestFinishTimeThatOnlyCurfewSaw},
	wellknown.AnnotationRefreshedAt:    {TestRefreshedAt, TestLabelsChangeRightBeforeExpiry},
	wellknown.AnnotationSuspendedAt:    {TestSuspendAtTheDeadline},
	wellknown.AnnotationCountedBy:      {TestTallyFinalizer},
	wellknown.LabelTTL:                 {TestTTLLabel, TestBoundsHoldForLabels, TestStrictOptions},
}

// ruleRows are the rules of admission.
var ruleRows = map[string][]func(*testing.T){
	"namespace-values":      {TestNamespaceValues, TestShortDefaultsAreWarned},
	"pod-template-ttl":      {TestTTLInPodTemplateIsRefused, TestJobSetRules, TestTrainJobDefaults, TestRuntimeRules, TestHTTPAPIOffline},
	"pod-restart-policy":    {TestPodThatNeverFinishesCannotHaveATTL},
	"forbidden-field":       {TestRuntimeRules},
	"trainjob-jobset":       {TestJobSetRules},
	"immutable-deadline":    {TestTrainJobDeadlineIsImmutable},
	"readable-value":        {TestObjectValues, TestJobSetRules, TestRuntimeRules},
	"bounds":                {TestBounds, TestDeadlineBounds, TestPolicyBounds, TestPolicyModeWarn, TestPolicyModeDryRun, TestJobSetRules, TestTrainJobDefaults, TestUnreadableNamespaceIsTold},
	"protection":            {TestPolicyDeniesProtection, TestPolicyDeniesProtectionByStatus},
	"native-acts-first":     {TestAnnotationsBesideTheNativeField, TestJobSetRules},
	"removed-default":       {TestRemovingADefault, TestUpdateRefusesOnlyWhatItChanges},
	"source-stamp":          {TestSourcesAreNotForAuthors},
	"no-effect":             {TestAnnotationsWithoutEffect},
	"unknown-key":           {TestMisspeltKeysAreWarnedAbout},
	"deadline-twice":        {TestTrainJobDefaults},
	"unusable-runtime":      {TestRuntimeThatDoesNotExist},
	"runtime-ttl":           {TestRuntimePrecedence, TestRuntimeIsReadLive},
	"runtime-backfill":      {TestRuntimeTTLIsForWhatFinishesLater},
	"ttl-label":             {TestTTLLabel, TestLabelsOfAnyKindAreReviewed, TestLabelPolicySamples, TestStrictOptions, TestBoundsHoldForLabels, TestPolicyBounds, TestJobSetRules},
	"expired-label":         {TestExpiredLabels, TestExpiredLabelOfAChild, TestTTLLabel, TestLabelsOfAnyKindAreReviewed, TestStrictOptions},
	"own-kind":              {TestOwnKindsAreNeverDeleted},
	"replaced-child":        {TestLabelFromTheTemplateOfAnOwner},
	"short-ttl":             {TestShortTTLIsWarned, TestShortDefaultsAreWarned, TestPolicyBounds, TestJobSetRules, TestRuntimeRules},
	"label-as-annotation":   {TestLabelsAndAnnotationsMixedUp},
	"annotation-as-label":   {TestLabelsAndAnnotationsMixedUp},
	"hook-job":              {TestHooksAreWarned, TestJobSetRules},
	"gitops-loop":           {TestShortTTLUnderGitOpsIsWarned, TestJobSetRules},
	"resources-stay":        {TestLabelOnAHelmRelease},
	"refreshed-at":          {TestRefreshedAt},
	"unusable-default":      {TestUnreadableNamespaceIsTold, TestPolicyThatFails},
	"user-may-delete":       {TestTTLOfThoseWhoMayNotDelete, TestStrictOptions, TestLabelOfThoseWhoMayNotDelete, TestLabelOnANamespace},
	"controller-may-delete": {TestKindThatTheControllerMayNotDelete, TestLabelOfThoseWhoMayNotDelete},
	rules.PolicyCompiles:    {TestLifecyclePolicySchema, TestKindProfileSchema},
	rules.PolicyBounds:      {TestPolicyBounds},
	rules.PolicyDryRun:      {TestPolicyDryRunHoldsWhatIsStamped},
	rules.CleanupAuthor:     {TestCleanupPolicyOfThoseWhoMayNotDelete},
	rules.CleanupAccount:    {TestCleanupWithTheRightsOfAnAccount},
	rules.CleanupApproval:   {TestApproveCleanup},
}

// restRows are the other rows: who sees which message, and who else answers.
var restRows = map[string][]func(*testing.T){
	"precedence: object, namespace, policies":           {TestPrecedence, TestOwnTTLWins},
	"precedence: runtime":                               {TestRuntimePrecedence, TestRuntimeIsReadLive, TestRuntimeThatDoesNotExist},
	"LifecyclePolicy":                                   {TestLifecyclePolicySchema, TestPolicyDefaults, TestPolicyBounds, TestPolicyModeWarn, TestPolicyModeDryRun, TestPrinterColumns},
	"KindProfile":                                       {TestKindProfileSchema, TestKindProfileBringsAdmission, TestPrinterColumns},
	"no default for what others own or manage":          {TestNoDefaultForWhatOthersManage, TestJobOfCronJobGetsAtLeastAMinute, TestJobSetDefaults, TestTrainJobDefaults},
	"explicit values of what others own count":          {TestExplicitTTLOfOwnedObjectsCounts},
	"defaults are announced to people alone":            {TestDefaultTTLIsFilledInAndAnnounced, TestDefaultIsNotAnnouncedToServiceAccounts},
	"an update is judged by what it changes":            {TestUpdateRefusesOnlyWhatItChanges, TestUpdateWarnsOnlyOfWhatItChanges},
	"dry runs":                                          {TestServerSideDryRun},
	"audit annotations":                                 {TestAuditAnnotations},
	"--native-ttl=off":                                  {TestNativeTTLOff},
	"--strict-labels, --require-delete":                 {TestStrictOptions},
	"--expired-labels":                                  {TestStrictOptions},
	"--kyverno-label":                                   {TestKyvernoLabel},
	"what does not use Curfew":                          {TestUnusedNamespaceIsLeftAlone, TestKindProfileBringsAdmission, TestWhatDoesNotUseCurfewIsNotSent},
	"the webhook is down":                               {TestWebhookDown},
	"/v1/validate, /v1/default and kubectl curfew lint": {TestHTTPAPIAnswersAsAdmissionDoes, TestHTTPAPIOffline, TestLintAnswersAsAdmissionDoes},
}

func TestEveryRowHasATest(t *testing.T) {
	known := rules.PlatformRules()
	for _, rule := range rules.All() {
		known = append(known, rule.Name)
	}
	for _, name := range known {
		if len(ruleRows[name]) == 0 {
			t.Errorf("no test shows rule %s", name)
		}
	}
	for name := range ruleRows {
		if !slices.Contains(known, name) {
			t.Errorf("there is no rule %s", name)
		}
	}
	for _, key := range keysOfCurfew(t) {
		if len(keyRows[key]) == 0 {
			t.Errorf("no test shows %s", key)
		}
	}
	for row, tests := range restRows {
		if len(tests) == 0 {
			t.Errorf("no test shows %s", row)
		}
	}
}

// keysOfCurfew are the values of the constants in policy/wellknown/keys.go that are annotations and labels of
// Curfew's.
func keysOfCurfew(t *testing.T) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "../../policy/wellknown/keys.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := (&types.Config{}).Check("keys", set, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range checked.Scope().Names() {
		one, ok := checked.Scope().Lookup(name).(*types.Const)
		if ok && (strings.HasPrefix(name, "Annotation") || strings.HasPrefix(name, "Label")) {
			if value := constant.StringVal(one.Val()); strings.HasPrefix(value, wellknown.Prefix) && value != wellknown.LabelAggregate && value != wellknown.LabelFeature {
				out = append(out, value)
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d keys found", len(out))
	}
	return out
}

// everyRuleSpoke holds what the map above promises against what happened: each rule was in an
// answer of a webhook. A run of some of the tests promises nothing.
func everyRuleSpoke() error {
	if !wholeRun() {
		return nil
	}
	spoke, err := suite.cluster.RulesAudited()
	if err != nil {
		return err
	}
	var silent []string
	for name := range ruleRows {
		if !spoke[name] {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		return fmt.Errorf("rules that nothing made speak: %s", strings.Join(silent, ", "))
	}
	return nil
}

// wholeRun reports whether all tests ran but those that make test-full PART=peers runs, as in make test.
func wholeRun() bool {
	value := func(name string) string {
		if one := flag.Lookup(name); one != nil {
			return one.Value.String()
		}
		return ""
	}
	return value("test.run") == "" && (value("test.skip") == "" || value("test.skip") == "^TestPeers")
}
