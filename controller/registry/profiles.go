package registry

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// compiledProfile is one KindProfile, built in or of the cluster.
type compiledProfile struct {
	*expression.Profile
	object *v1alpha1.KindProfile
	uid    string
	errs   field.ErrorList
}

func (r *Registry) compile(object *v1alpha1.KindProfile) compiledProfile {
	profile, errs := r.options.Compiler.Profile(object)
	return compiledProfile{Profile: profile, object: object, uid: string(object.UID), errs: errs}
}

func (r *Registry) readProfile(read *unstructured.Unstructured) compiledProfile {
	object := &v1alpha1.KindProfile{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, object); err != nil {
		// The schema of the CustomResourceDefinition does not let this through.
		r.log.Error(err, "a KindProfile is not of the form that this version knows", "profile", read.GetName())
	}
	return r.compile(object)
}
