// Manifests reads Kubernetes manifests as strictly as an API server does, and files of Prometheus' alert rules. It accepts
// only kinds and fields that it knows, no field twice, and values of the right types. A DaemonSet must find its own pods.
// It names each object; what it cannot read it says, and exits with 1. No server is asked.
//
//	go run . FILE...
//
// It is a module of its own, so that nothing of Kubernetes is among what the product depends on.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	code := 0
	for _, file := range os.Args[1:] {
		if err := read(file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			code = 1
		}
	}
	os.Exit(code)
}

// read decodes every document of a file.
func read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if bytes.Contains(text, []byte("\ngroups:\n")) {
		return readRules(file, text)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	buffer := make([]byte, len(text))
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		object, kind, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			return err
		}
		if set, ok := object.(*appsv1.DaemonSet); ok {
			selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
			if err != nil || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
				return fmt.Errorf("the selector does not match the labels of the pods (%v)", err)
			}
		}
		fmt.Printf("%s: %s\n", file, kind)
	}
}

// readRules decodes a file of alert rules. Their expressions are not parsed.
func readRules(file string, text []byte) error {
	var rules struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         metav1.Duration   `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		return err
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if group.Name == "" || rule.Alert == "" || rule.Expr == "" {
				return fmt.Errorf("group %q, alert %q: a group has a name, and a rule a name and an expression", group.Name, rule.Alert)
			}
			fmt.Printf("%s: alert %s\n", file, rule.Alert)
		}
	}
	return nil
}
