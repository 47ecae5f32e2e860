package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mount writes the content of a container's volumes below its root.
func (c *Cluster) mount(ctx context.Context, pod *corev1.Pod, root string) error {
	volumes := map[string]corev1.VolumeSource{}
	for _, volume := range pod.Spec.Volumes {
		volumes[volume.Name] = volume.VolumeSource
	}
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		files, err := c.volume(ctx, pod, volumes[mount.Name])
		if err != nil {
			return fmt.Errorf("volume %s: %w", mount.Name, err)
		}
		folder := filepath.Join(root, mount.MountPath)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// volume is the content of a volume, by file name.
func (c *Cluster) volume(ctx context.Context, pod *corev1.Pod, source corev1.VolumeSource) (map[string][]byte, error) {
	files := map[string][]byte{}
	switch {
	case source.EmptyDir != nil:
		return files, nil
	case source.Secret != nil:
		secret, err := c.Client.CoreV1().Secrets(pod.Namespace).Get(ctx, source.Secret.SecretName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && source.Secret.Optional != nil && *source.Secret.Optional {
			return files, nil
		}
		return secret.Data, err
	case source.Projected == nil:
		return nil, fmt.Errorf("this kind of volume is not known here")
	}
	for _, part := range source.Projected.Sources {
		switch {
		case part.ServiceAccountToken != nil:
			token, err := c.podToken(ctx, pod, *part.ServiceAccountToken.ExpirationSeconds)
			if err != nil {
				return nil, err
			}
			files[part.ServiceAccountToken.Path] = []byte(token)
		case part.ConfigMap != nil:
			config, err := c.Client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, part.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			for _, item := range part.ConfigMap.Items {
				files[item.Path] = []byte(config.Data[item.Key])
			}
		case part.DownwardAPI != nil:
			for _, item := range part.DownwardAPI.Items {
				value, err := podField(pod, item.FieldRef.FieldPath)
				if err != nil {
					return nil, err
				}
				files[item.Path] = []byte(value)
			}
		}
	}
	return files, nil
}

// podToken is a token of a Pod's ServiceAccount that is bound to the Pod, as the kubelet asks for
// it.
func (c *Cluster) podToken(ctx context.Context, pod *corev1.Pod, seconds int64) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	made, err := c.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s: %w", pod.Spec.ServiceAccountName, err)
	}
	return made.Status.Token, nil
}
