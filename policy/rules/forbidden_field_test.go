package rules

import (
	"testing"
)

func TestForbiddenField(t *testing.T) {
	bad := object("TrainingRuntime", map[string]any{"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{
		map[string]any{}, map[string]any{"template": map[string]any{"spec": map[string]any{"activeDeadlineSeconds": int64(5)}}}}}}})
	equal(t, judge(forbiddenField, trainingRuntime, Request{}, nil, bad),
		[]string{"error spec.template.spec.replicatedJobs[1].template.spec.activeDeadlineSeconds: must not be set: set it on the TrainJob"})
	equal(t, judge(forbiddenField, trainingRuntime, Request{}, bad, bad), nil)
}
