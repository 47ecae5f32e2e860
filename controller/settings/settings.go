package settings

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
)

// Name of the ConfigMap. The controller's Role allows no other.
const Name = "curfew-settings"

// Keys beside those of flags.
const (
	// User is the controller's user name.
	User    = "user"
	Version = "version"
)

// Resource is that of ConfigMaps.
var Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const (
	fieldManager = "curfew-controller"
	// applyEvery brings back what somebody changed or deleted.
	applyEvery = 10 * time.Minute
)

// Of returns the effective values of flags, in a form that their flags accept. Lists are joined by
// commas.
func Of(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.VisitAll(func(flag *pflag.Flag) {
		switch list, ok := flag.Value.(pflag.SliceValue); {
		case flag.Name == "help", flag.Name == "kubeconfig": // of no interest, and a path of this machine
		case ok:
			out[flag.Name] = strings.Join(list.GetSlice(), ",")
		default:
			out[flag.Name] = flag.Value.String()
		}
	})
	return out
}

// Publisher writes the settings. It runs on the leader only, whose settings are the effective ones.
type Publisher struct {
	ConfigMaps dynamic.ResourceInterface
	// User asks the API server for the controller's user name.
	User  func(ctx context.Context) (string, error)
	Data  map[string]string
	Clock clock.Clock
	Log   logr.Logger
}

// Run applies the settings until ctx is done.
func (p *Publisher) Run(ctx context.Context) error {
	worker := loop.Worker{
		Clock: p.Clock, Signal: loop.NewSignal(), Backoff: loop.NewBackoffOf(time.Second, applyEvery),
		Do: func(ctx context.Context) (time.Duration, error) { return applyEvery, p.apply(ctx) },
		Failed: func(err error, again time.Duration) {
			p.Log.Error(err, "could not publish the settings, trying again", "configMap", Name, "after", again)
		},
	}
	worker.Signal.Set()
	worker.Run(ctx)
	return nil
}

// apply is a server-side apply, which takes no right to read, and creates by name.
func (p *Publisher) apply(ctx context.Context) error {
	user, err := p.User(ctx)
	if err != nil {
		return fmt.Errorf("asking the API server who Curfew is: %w", err)
	}
	data := map[string]any{User: user}
	for key, value := range p.Data {
		data[key] = value
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("v1")
	object.SetKind("ConfigMap")
	object.SetName(Name)
	object.SetLabels(map[string]string{policy.LabelPartOf: policy.PartOfCurfew, "app.kubernetes.io/name": "curfew", "app.kubernetes.io/component": "controller"})
	object.Object["data"] = data
	_, err = p.ConfigMaps.Apply(ctx, Name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}
