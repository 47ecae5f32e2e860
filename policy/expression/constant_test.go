package expression_test

import (
	"strings"
	"testing"

	"curfew.dev/curfew/policy/expression"
)

// An expression that asks for no variable and comes to what cannot be used is as wrong for every
// object, and rejected with the policy. One that may come to something else for another object is
// not.
func TestConstantExpressionsAreTried(t *testing.T) {
	for source, want := range map[string]string{
		`ttl: {expression: '"1x"'}`:                                      "spec.defaults.ttl.expression",
		`ttl: {expression: 'duration("1x")'}`:                            "spec.defaults.ttl.expression",
		`ttl: {expression: 'duration("-1h")'}`:                           "spec.defaults.ttl.expression",
		`ttlFailed: {expression: '"1" + "y"'}`:                           "spec.defaults.ttlFailed.expression",
		`deadline: {expression: '0'}`:                                    "spec.defaults.deadline.expression",
		`deadline: {expression: '"never"'}`:                              "spec.defaults.deadline.expression",
		`ttlLabel: {expression: '"soon"'}`:                               "spec.defaults.ttlLabel.expression",
		`ttl: {expression: '"1d"'}`:                                      "",
		`ttl: {expression: 'duration("24h")'}`:                           "",
		`ttl: {expression: '"never"'}`:                                   "",
		`ttl: {expression: 'null'}`:                                      "",
		`ttlLabel: {expression: '"2026-12-24"'}`:                         "",
		`ttl: {expression: 'object.metadata.name == "a" ? "1x" : "1d"'}`: "",
		`ttl: {expression: 'object.metadata.labels.ttl'}`:                "",
		`ttl: {expression: 'namespaceObject.metadata.labels.ttl'}`:       "",
		`deadline: {expression: 'runtime.spec.ttl'}`:                     "",
	} {
		_, errs := expression.NewCompiler(16).Policy(lifecyclePolicy(t, "platform", "defaults: {"+source+"}"))
		switch {
		case want == "" && len(errs) > 0:
			t.Errorf("%s: rejected: %v", source, errs)
		case want != "" && (len(errs) != 1 || errs[0].Field != want || strings.Contains(errs[0].Detail, "\n")):
			t.Errorf("%s: %v, want one error of %s", source, errs, want)
		}
	}
}
