// Fabric8Follower KUBECONFIG RESTRICTED NAME NAMESPACE: fabric8's `kubernetes-client` as a follower of tests/clients/follow.py. It watches over WebSockets, as is its way.

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.File;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

class Fabric8Follower extends Follower {
  final String kubeconfig;
  final String restricted;
  final String name;
  final String namespace;
  final KubernetesClient client;
  SharedIndexInformer<ConfigMap> informer;

  public static void main(String[] arguments) throws Exception {
    new Fabric8Follower(arguments).run();
  }

  Fabric8Follower(String[] arguments) {
    kubeconfig = arguments[0];
    restricted = arguments[1];
    name = arguments[2];
    namespace = arguments[3];
    client = client(config(kubeconfig));
  }

  static Config config(String kubeconfig) {
    return Config.fromKubeconfig(new File(kubeconfig));
  }

  static KubernetesClient client(Config config) {
    return new KubernetesClientBuilder().withConfig(config).build();
  }

  /** Checks that the call ends with the client's own exception, which tells the server's Status. */
  static void refused(String what, int code, String reason, Deed deed) throws Exception {
    try {
      check(what, false, deed.done());
    } catch (KubernetesClientException error) {
      check(what, error.getCode() == code && error.getStatus().getReason().equals(reason), error);
    }
  }

  Resource<ConfigMap> map(String called, String value) {
    ConfigMap made = new ConfigMapBuilder().withNewMetadata().withName(called).withNamespace(name).endMetadata().addToData("a", value).build();
    return client.resource(made);
  }

  void answers() throws Exception {
    List<String> found = new ArrayList<>();
    String following = null;
    do {
      ConfigMapList page = client.configMaps().inNamespace(namespace).list(new ListOptionsBuilder().withLimit(700L).withContinue(following).build());
      page.getItems().forEach(it -> found.add(it.getMetadata().getName()));
      following = page.getMetadata().getContinue();
    } while (following != null && !following.isEmpty());
    say("paged", found.size(), new HashSet<>(found).size());

    refused("404", 404, "NotFound", this::missing);
    ConfigMap stale = map("one", "1").create();
    refused("409 of what is there", 409, "AlreadyExists", () -> map("one", "1").create());
    client.resource(stale).patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\": {\"b\": \"2\"}}");
    refused("409 of what has changed", 409, "Conflict", () -> client.resource(stale).lockResourceVersion().update());
    refused("422", 422, "Invalid", () -> map("Not_A_Name", "1").create());
    // It answers 429 with false, after as many tries as it may make. It evicts with policy/v1beta1.
    try (KubernetesClient hasty = client(new ConfigBuilder(config(kubeconfig)).withRequestRetryBackoffLimit(0).build())) {
      check("429", !hasty.pods().inNamespace(name).withName("guarded").evict(), "evicted");
    }
    if (!restricted.isEmpty()) {
      try (KubernetesClient nobody = client(config(restricted))) {
        refused("403", 403, "Forbidden", () -> nobody.secrets().inNamespace(name).list());
      }
    }
    check("an apply", map("applied", "1").fieldManager("first").serverSideApply().getData().equals(Map.of("a", "1")), "other data");
    refused("409 of an apply", 409, "Conflict", () -> map("applied", "2").fieldManager("second").serverSideApply());
    ConfigMap forced = map("applied", "2").fieldManager("second").forceConflicts().serverSideApply();
    check("an apply by force", forced.getData().equals(Map.of("a", "2")), forced);
  }

  /** A read of what is missing is null, not an exception: a change of it is one. */
  Object missing() {
    return client.configMaps().inNamespace(name).withName("missing").patch(PatchContext.of(PatchType.JSON_MERGE), "{}");
  }

  void late() throws Exception {
    var ended = new CompletableFuture<WatcherException>();
    Watcher<ConfigMap> watcher =
        new Watcher<>() {
          public void eventReceived(Action action, ConfigMap object) {}

          public void onClose(WatcherException cause) {
            ended.complete(cause);
          }
        };
    try (var watch = client.configMaps().inNamespace(namespace).watch(new ListOptionsBuilder().withResourceVersion("1").build(), watcher)) {
      WatcherException cause = ended.get(20, TimeUnit.SECONDS);
      check("410", cause.isHttpGone(), cause);
    } catch (KubernetesClientException error) {
      check("410", error.getCode() == 410, error);
    }
  }

  void follow() {
    informer =
        client.configMaps().inNamespace(namespace).withLabelSelector("follower!=" + name).inform(
            new ResourceEventHandler<>() {
              public void onAdd(ConfigMap object) {
                say("put", object.getMetadata().getName(), object.getMetadata().getResourceVersion());
              }

              public void onUpdate(ConfigMap old, ConfigMap object) {
                onAdd(object);
              }

              public void onDelete(ConfigMap object, boolean unknown) {
                say("gone", object.getMetadata().getName());
              }
            });
  }

  void held() {
    informer.getStore().list().forEach(it -> say("held", it.getMetadata().getName(), it.getMetadata().getResourceVersion()));
  }
}
