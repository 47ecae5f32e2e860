package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/servertime"
)

// Clients connect to the API server as the user.
type Clients struct {
	Discovery Discovery
	Objects   dynamic.Interface
	Metadata  metadata.Interface
	// ServerTime is the API server's time, at most a second ahead; nil means that it is not known.
	ServerTime func(context.Context) (time.Time, error)
	// As connects as another user. It is nil where that is impossible: the user already
	// impersonates another user, and the API server checks the rights of the user who does so.
	As func(user string) (Clients, error)
}

// NewClients makes them all from one configuration.
func NewClients(config *rest.Config) (Clients, error) {
	var out Clients
	skew := servertime.NewSkew(clock.RealClock{})
	config = rest.CopyConfig(config)
	if original := rest.CopyConfig(config); config.Impersonate.UserName == "" {
		out.As = func(user string) (Clients, error) {
			as := rest.CopyConfig(original)
			as.Impersonate.UserName = user // The API server adds the groups of a service account.
			return NewClients(as)
		}
	}
	config.Wrap(skew.Wrap)
	out.ServerTime = servertime.NewServerTime(skew, func(context.Context) error {
		_, err := out.Discovery.ServerVersion()
		return err
	}).Now
	plain := rest.CopyConfig(config)
	plain.GroupVersion, plain.NegotiatedSerializer = &schema.GroupVersion{}, metascheme.Codecs.WithoutConversion()
	var errs [3]error
	client, err := rest.RESTClientFor(plain)
	out.Discovery, errs[0] = &discoveryClient{client}, err
	out.Objects, errs[1] = dynamic.NewForConfig(config)
	out.Metadata, errs[2] = metadata.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return out, fmt.Errorf("client of the API server: %w", err)
	}
	return out, nil
}

// Discovery asks which kinds are served. client-go's own client would link every API type.
type Discovery interface {
	ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
	ServerVersion() (*version.Info, error)
}

// aggregated is the form in which one answer has all groups of an endpoint.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

type discoveryClient struct{ rest rest.Interface }

// ServerVersion implements [Discovery].
func (d *discoveryClient) ServerVersion() (*version.Info, error) {
	text, err := d.rest.Get().AbsPath("/version").Do(context.Background()).Raw()
	if err != nil {
		return nil, err
	}
	out := &version.Info{}
	return out, json.Unmarshal(text, out)
}

// ServerGroupsAndResources implements [Discovery]. Where a group does not answer, there is a
// [silentError] beside the others.
func (d *discoveryClient) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	var groups []*metav1.APIGroup
	var lists []*metav1.APIResourceList
	silent := &silentError{}
	for _, path := range []string{"/api", "/apis"} {
		text, err := d.rest.Get().AbsPath(path).SetHeader("Accept", aggregated).Do(context.Background()).Raw()
		if err != nil {
			return nil, nil, err
		}
		var answer apidiscovery.APIGroupDiscoveryList
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		for i := range answer.Items {
			group, served := groupOf(&answer.Items[i], silent)
			groups, lists = append(groups, group), append(lists, served...)
		}
	}
	if len(silent.groups) > 0 {
		return groups, lists, silent
	}
	return groups, lists, nil
}

// groupOf is a group with its versions that answer; the first is preferred.
func groupOf(of *apidiscovery.APIGroupDiscovery, silent *silentError) (*metav1.APIGroup, []*metav1.APIResourceList) {
	group := &metav1.APIGroup{Name: of.Name}
	var lists []*metav1.APIResourceList
	for i := range of.Versions {
		version := &of.Versions[i]
		at := schema.GroupVersion{Group: of.Name, Version: version.Version}
		if version.Freshness == apidiscovery.DiscoveryFreshnessStale {
			silent.groups = append(silent.groups, at)
			continue
		}
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: at.String(), Version: at.Version})
		group.PreferredVersion = group.Versions[0]
		list := &metav1.APIResourceList{GroupVersion: at.String()}
		for j := range version.Resources {
			if resource := &version.Resources[j]; resource.ResponseKind != nil {
				list.APIResources = append(list.APIResources, metav1.APIResource{
					Name: resource.Resource, SingularName: resource.SingularResource, ShortNames: resource.ShortNames, Kind: resource.ResponseKind.Kind,
					Namespaced: resource.Scope == apidiscovery.ScopeNamespace, Verbs: resource.Verbs,
				})
			}
		}
		lists = append(lists, list)
	}
	return group, lists
}

// silentError names groups whose API server does not answer.
type silentError struct{ groups []schema.GroupVersion }

// Error implements error.
func (e *silentError) Error() string {
	var names []string
	for _, group := range e.groups {
		names = append(names, group.String())
	}
	return "no answer from " + strings.Join(names, ", ")
}
