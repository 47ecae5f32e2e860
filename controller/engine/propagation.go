package engine

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// packPropagation keeps a propagation policy in two bits. What is not one of the three is
// Background: it cascades, and it honours finalizers.
func packPropagation(p metav1.DeletionPropagation) flags {
	switch p {
	case "":
		return 0
	case metav1.DeletePropagationForeground:
		return flagPropagation1
	case metav1.DeletePropagationOrphan:
		return flagPropagation0 | flagPropagation1
	default:
		return flagPropagation0
	}
}

func unpackPropagation(f flags) metav1.DeletionPropagation {
	switch f & flagPropagation {
	case 0:
		return ""
	case flagPropagation1:
		return metav1.DeletePropagationForeground
	case flagPropagation0 | flagPropagation1:
		return metav1.DeletePropagationOrphan
	default:
		return metav1.DeletePropagationBackground
	}
}
