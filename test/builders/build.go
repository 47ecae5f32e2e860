package builders

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// BuildJob is a Job as a build system makes it: one init container, one container, some
// environment, resources and volumes. It says nothing about its TTL.
func BuildJob(namespace, name string) *batchv1.Job {
	env := func(container *corev1.Container, pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			container.Env = append(container.Env, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	fetch := corev1.Container{Name: "fetch", Image: "registry.example/ci/git:2.51", Args: []string{"clone", "--depth=1", "$(REPOSITORY)", "/src"},
		VolumeMounts: []corev1.VolumeMount{{Name: "src", MountPath: "/src"}}}
	env(&fetch, "REPOSITORY", "https://git.example/shop/checkout.git", "REVISION", "5b2f6c0f9b1f4f0f8f6f0c2f7b7d4d6f9a3e1c55")
	build := corev1.Container{
		Name: "build", Image: "registry.example/ci/build:1.26", Command: []string{"/bin/sh", "-ec", "cd /src && make test && make push"},
		WorkingDir: "/src",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "src", MountPath: "/src"}, {Name: "cache", MountPath: "/build/cache"}},
	}
	env(&build, "CI", "true", "BUILD_NUMBER", "48213", "BRANCH", "main", "GOFLAGS", "-mod=readonly", "REGISTRY", "registry.example/shop")
	build.Env = append(build.Env, corev1.EnvVar{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "registry"}, Key: "token"}}})
	labels := map[string]string{"app.kubernetes.io/name": "checkout", "app.kubernetes.io/part-of": "shop", "ci.example.org/pipeline": "48213"}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels,
			Annotations: map[string]string{"ci.example.org/commit": "5b2f6c0f9b1f4f0f8f6f0c2f7b7d4d6f9a3e1c55", "ci.example.org/started-by": "push"}},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: "builder",
					InitContainers: []corev1.Container{fetch}, Containers: []corev1.Container{build},
					Volumes: []corev1.Volume{
						{Name: "src", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "cache", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "go-cache"}}},
					},
				},
			},
		},
	}
}
