// Command flags prints what the command line of this kube-apiserver takes: its flags, admission plugins and API versions, one a line, separated by tabs.
package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

func main() {
	command := app.NewAPIServerCommand()
	command.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	// As cli.Run does before it reads the command line.
	logs.AddFlags(command.PersistentFlags())
	command.Flags().AddFlagSet(command.PersistentFlags())
	command.InitDefaultHelpFlag()
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		fmt.Printf("flag\t%s\t%s\t%s\t%s\t%s\n", flag.Name, flag.Shorthand, flag.Value.Type(), flag.NoOptDefVal, flag.DefValue)
	})
	off := options.DefaultOffAdmissionPlugins()
	for _, plugin := range options.AllOrderedPlugins {
		fmt.Printf("plugin\t%s\t%t\n", plugin, !off.Has(plugin))
	}
	versions := legacyscheme.Scheme.PrioritizedVersionsAllGroups()
	versions = append(versions, apiextensions.Scheme.PrioritizedVersionsAllGroups()...)
	versions = append(versions, aggregator.Scheme.PrioritizedVersionsAllGroups()...)
	// A version that can be turned on is in the defaults, as on or off; others are only decoded.
	defaults := controlplane.DefaultAPIResourceConfigSource().GroupVersionConfigs
	var lines []string
	for _, version := range versions {
		state := "decoded"
		if on, found := defaults[version]; found {
			state = map[bool]string{true: "on", false: "off"}[on]
		}
		line := fmt.Sprintf("version\t%s/%s\t%s\n", version.Group, version.Version, state)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Print(line)
	}
}
