package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/controller/watch"
)

// Account are the clients that act as one service account (S10).
type Account struct {
	Name     types.NamespacedName
	Objects  dynamic.Interface
	Metadata metadata.Interface
	Delete   deletion.Action
	// Lacks returns the permissions that the account does not have in a namespace, or with "" in
	// all.
	Lacks func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error)
	// Exists returns the UID of the account, or [errForbidden] if there is none. The API server lets
	// Curfew act as an account that was deleted, by the bindings that still name it.
	Exists func(ctx context.Context) (types.UID, error)
}

// exists reads a service account with Curfew's own rights.
func exists(client metadata.Interface, name types.NamespacedName) func(context.Context) (types.UID, error) {
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(name.Namespace)
	return func(ctx context.Context) (types.UID, error) {
		account, err := accounts.Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && account.DeletionTimestamp != nil:
			return "", fmt.Errorf("service account %s does not exist: %w", name, errForbidden)
		case err != nil:
			return "", fmt.Errorf("reading service account %s: %w", name, err)
		}
		return account.UID, nil
	}
}

// reader reads as an account.
type reader struct {
	survey.Clients
	account *Account
}

// Lacks implements survey.Reader.
func (r reader) Lacks(ctx context.Context, resource schema.GroupVersionResource, namespace string, verbs ...string) (string, error) {
	for _, verb := range verbs {
		missing, err := r.account.Lacks(ctx, namespace, []permission.Need{{Verb: verb, Resource: resource}})
		if err != nil || len(missing) > 0 {
			return verb, err
		}
	}
	return "", nil
}

// maxAccounts is how many accounts keep their clients.
const maxAccounts = 256

// Accounts makes clients that impersonate service accounts. The API server grants that by the verb
// impersonate on serviceaccounts; without it every request of such a client is forbidden.
type Accounts struct {
	config *rest.Config
	// own is the account of policies that name none.
	own types.NamespacedName
	// wrap adds to each deletion what Curfew does with its own rights.
	wrap  func(deletion.Action) deletion.Action
	clock clock.PassiveClock
	// permissions remembers what the accounts may do.
	permissions *permission.Cached

	mu    sync.Mutex
	known *lru.Cache
}

// NewAccounts makes accounts for an API server. Policies that name no account use Curfew's own.
func NewAccounts(config *rest.Config, own types.NamespacedName, wrap func(deletion.Action) deletion.Action, clk clock.PassiveClock) *Accounts {
	return &Accounts{config: config, own: own, wrap: wrap, clock: clk, permissions: permission.NewCached(clk), known: lru.New(maxAccounts)}
}

// Of returns the clients of a service account; the zero name is Curfew's own.
func (a *Accounts) Of(name types.NamespacedName) (*Account, error) {
	if name.Name == "" {
		name = a.own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.known.Get(name); ok {
		if account, ok := known.(*Account); ok {
			return account, nil
		}
	}
	account, err := a.make(name)
	if err != nil {
		return nil, fmt.Errorf("clients of service account %s: %w", name, err)
	}
	a.known.Add(name, account)
	return account, nil
}

func (a *Accounts) make(name types.NamespacedName) (*Account, error) {
	own, err := metadata.NewForConfig(a.config)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(a.config)
	config.Wrap(watch.Cap)
	// The API server adds the groups of a service account.
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", name.Namespace, name.Name)}
	client, err := deletion.NewClient(config)
	if err != nil {
		return nil, err
	}
	objects, failed := dynamic.NewForConfig(config)
	partial, err := metadata.NewForConfig(config)
	failed = errors.Join(failed, err)
	authorization, err := authorizationclient.NewForConfig(config)
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	reviews := permission.Reviews{Access: authorization.SelfSubjectAccessReviews()}
	return &Account{
		Name: name, Objects: objects, Metadata: partial, Delete: a.wrap(deletion.NewDeleteAction(client, a.clock, nil)), Exists: exists(own, name),
		Lacks: func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error) {
			return a.permissions.LacksIn(ctx, name.String(), reviews, namespace, needs)
		},
	}, nil
}
