package main

import (
	_ "embed"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

//go:embed build.yaml
var build []byte

// buildJob is a Job as a build system makes it: one init container, one container, some
// environment, resources and volumes. It says nothing about its TTL.
func buildJob(namespace, name string) *batchv1.Job {
	job := &batchv1.Job{}
	if err := yaml.UnmarshalStrict(build, job); err != nil {
		panic(err) // The file is a part of this package.
	}
	job.TypeMeta = metav1.TypeMeta{} // As a typed client sends it.
	job.Namespace, job.Name = namespace, name
	return job
}
