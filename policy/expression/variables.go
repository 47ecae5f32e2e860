package expression

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Variables are the inputs of an expression: objects as decoded JSON. A nil object is null. No
// expression sees metadata.managedFields: some evaluators do not have them, and the result must be
// the same everywhere.
type Variables struct {
	Object, Namespace, Runtime map[string]any
	// NamespacePolicy is the parsed namespace. If Namespace is nil, expressions see its metadata,
	// which is assembled when one reads it.
	NamespacePolicy *resolution.NamespacePolicy
	// Now is the instant of the decision, for expressions of [ScopeCleanup].
	Now time.Time
	// Lookup answers one of [Lookups] for the object; nil if nothing can be looked up.
	Lookup func(name string) (bool, error)
	// computed holds the variables of the object's cleanup policy; nil without any.
	computed func(name string) (ref.Val, error)
}

// activation passes the variables to CEL without building a map for each evaluation.
type activation struct{ *Variables }

// ResolveName implements cel.Activation.
func (a activation) ResolveName(name string) (any, bool) {
	switch name {
	case varObject:
		return orNull(withoutManagedFields(&a.Object)), true
	case varNamespaceObject:
		return orNull(a.namespace()), true
	case varRuntime:
		return orNull(withoutManagedFields(&a.Runtime)), true
	case varNow:
		return a.Now, true
	default:
		return a.resolveLate(name)
	}
}

// resolveLate looks up the values that cost something, only where an expression uses them.
func (a activation) resolveLate(name string) (any, bool) {
	var value any
	err := fmt.Errorf("%s is not known here", name)
	switch {
	case strings.HasPrefix(name, variablesPrefix) && a.computed != nil:
		value, err = a.computed(strings.TrimPrefix(name, variablesPrefix))
	case slices.Contains(Lookups, name) && a.Lookup != nil:
		value, err = a.Lookup(name)
	case !strings.HasPrefix(name, variablesPrefix) && !slices.Contains(Lookups, name):
		return nil, false
	}
	if err != nil {
		return types.WrapErr(err), true
	}
	return value, true
}

// Parent implements cel.Activation.
func (a activation) Parent() cel.Activation { return nil }

// withoutManagedFields replaces a map that has them by a copy. The original, which may be in a
// cache, is not changed.
func withoutManagedFields(object *map[string]any) map[string]any {
	metadata, _ := (*object)["metadata"].(map[string]any)
	if _, ok := metadata["managedFields"]; !ok {
		return *object
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	*object = maps.Clone(*object)
	(*object)["metadata"] = metadata
	return *object
}

// namespace is the namespace as expressions see it, made once for all that look at it.
func (v *Variables) namespace() map[string]any {
	if v.Namespace != nil || v.NamespacePolicy == nil {
		return v.Namespace
	}
	v.Namespace = namespaceObject(v.NamespacePolicy)
	return v.Namespace
}

// namespaceObject shows the fields that the API server's own policies show.
func namespaceObject(namespacePolicy *resolution.NamespacePolicy) map[string]any {
	metadata := map[string]any{"name": namespacePolicy.Name}
	if !namespacePolicy.Created.IsZero() {
		metadata["uid"], metadata["resourceVersion"] = string(namespacePolicy.UID), namespacePolicy.ResourceVersion
		metadata["creationTimestamp"] = namespacePolicy.Created.UTC().Format(time.RFC3339)
	}
	for name, pairs := range map[string]map[string]string{"labels": namespacePolicy.Labels, "annotations": namespacePolicy.Annotations} {
		if len(pairs) > 0 {
			metadata[name] = anyMap(pairs)
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
}

func anyMap(pairs map[string]string) map[string]any {
	out := make(map[string]any, len(pairs))
	for key, value := range pairs {
		out[key] = value
	}
	return out
}

// namespaceLabels are the labels that policies select by; known is false if the namespace is not
// known.
func (v *Variables) namespaceLabels() (set labels.Labels, known bool) {
	switch {
	case v.Namespace != nil:
		return labels.Set(policy.StringMap(v.Namespace, "labels")), true
	case v.NamespacePolicy != nil:
		return labels.Set(v.NamespacePolicy.Labels), true
	default:
		return nil, false
	}
}

func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

// originExpression marks field errors that come from an expression, for the reason of condition
// Ready.
const originExpression = "expression"

// setting is the value for one object; nil where there is none.
func (v *value) setting(ctx context.Context, source lifetime.Source, variables *Variables) *lifetime.Setting {
	if v == nil {
		return nil
	}
	if v.constant != nil {
		return v.constant
	}
	out := &lifetime.Setting{Path: v.path, Source: source, Text: v.program.source}
	ttl, text, err := v.program.TTL(ctx, variables)
	if text != "" {
		out.Text = text
	}
	switch {
	case err != nil:
		out.Err = err
	case ttl == nil:
		return nil
	default:
		out.TTL = *ttl
		if v.program.result == ResultDuration {
			out.Err = checkDeadline(out.TTL.After)
		}
	}
	return out
}

func checkDeadline(after time.Duration) error {
	if after < time.Second {
		return fmt.Errorf("%s is below 1: a deadline is 1s or more", lifetime.FormatDuration(after))
	}
	return nil
}

var errOneOf = errors.New("set exactly one of value and expression")

// value compiles one default. One that cannot be used becomes a constant with an error: it means
// keep (S6).
func (c *Compiler) value(path *field.Path, constant, expression *string, result Result, errs *field.ErrorList) *value {
	out := &value{path: path.String()}
	if (constant == nil) == (expression == nil) {
		*errs = append(*errs, field.Invalid(path, "", errOneOf.Error()))
		out.constant = &lifetime.Setting{Path: out.path, Err: errOneOf}
		return out
	}
	if expression != nil {
		child := path.Child("expression")
		out.path = child.String()
		program, err := c.Compile(*expression, ScopePolicy, result)
		if err != nil {
			*errs = append(*errs, invalidExpression(child, *expression, err))
			out.constant = &lifetime.Setting{Path: out.path, Text: *expression, Err: err}
			return out
		}
		out.program = program
		if err := out.constantError(); err != nil {
			*errs = append(*errs, invalidExpression(child, *expression, err))
		}
		return out
	}
	valuePath := path.Child("value")
	out.path = valuePath.String()
	out.constant = constantSetting(valuePath, *constant, result)
	if out.constant.Err != nil {
		*errs = append(*errs, field.Invalid(valuePath, *constant, out.constant.Err.Error()))
	}
	return out
}

// constantError is the error of an expression without variables, such as duration("1x"). It is the
// same for every object, so that it can be reported before there is one.
func (v *value) constantError() error {
	if !v.program.constant {
		return nil
	}
	if v.program.result == ResultLabel {
		_, err := v.program.Label(context.Background(), &Variables{})
		return err
	}
	if setting := v.setting(context.Background(), lifetime.Source{}, &Variables{}); setting != nil {
		return setting.Err
	}
	return nil
}

func constantSetting(path *field.Path, text string, result Result) *lifetime.Setting {
	out := &lifetime.Setting{Path: path.String(), Text: text}
	switch result {
	case ResultLabel:
		_, out.Err = lifetime.ParseTTLLabel(text)
		return out
	case ResultDuration:
		if out.TTL, out.Err = parseTTL(text, false); out.Err == nil {
			out.Err = checkDeadline(out.TTL.After)
		}
	default:
		out.TTL, out.Err = parseTTL(text, true)
	}
	return out
}

func invalidExpression(path *field.Path, source string, err error) *field.Error {
	return field.Invalid(path, source, err.Error()).WithOrigin(originExpression)
}

func textOf[T ~string](text *T) *string {
	if text == nil {
		return nil
	}
	return new(string(*text))
}

func (c *Compiler) ttlValue(path *field.Path, v *v1alpha1.TTLValue, errs *field.ErrorList) *value {
	if v == nil {
		return nil
	}
	return c.value(path, textOf(v.Value), textOf(v.Expression), ResultTTL, errs)
}

func (c *Compiler) durationValue(path *field.Path, v *v1alpha1.DurationValue, errs *field.ErrorList) *value {
	if v == nil {
		return nil
	}
	return c.value(path, textOf(v.Value), textOf(v.Expression), ResultDuration, errs)
}

func (c *Compiler) labelValue(path *field.Path, v *v1alpha1.LabelValue, errs *field.ErrorList) *value {
	if v == nil {
		return nil
	}
	return c.value(path, textOf(v.Value), textOf(v.Expression), ResultLabel, errs)
}
